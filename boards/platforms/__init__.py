# SPDX-License-Identifier: BSD-2-Clause
"""Amaranth platforms by board, in the style of amaranth-boards; each is defined in its board's folder."""
