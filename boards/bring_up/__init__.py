# SPDX-License-Identifier: BSD-2-Clause
"""A design for a bare board: both engines on generated data, checked on the board."""
