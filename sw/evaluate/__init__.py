# SPDX-License-Identifier: BSD-2-Clause
"""Evaluation of the library through its public front: benches, the papers' results, `pays`, training."""
