# SPDX-License-Identifier: BSD-2-Clause
"""Boards: the files generated for each, its clock and its area."""
