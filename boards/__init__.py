# SPDX-License-Identifier: BSD-2-Clause
"""Boards: what is generated for each, and what its clock and area are."""
