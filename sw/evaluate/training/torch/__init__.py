# SPDX-License-Identifier: BSD-2-Clause
"""The models and the optimizer that need torch."""
