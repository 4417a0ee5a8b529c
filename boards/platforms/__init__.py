# SPDX-License-Identifier: BSD-2-Clause
"""Amaranth platforms: what the pins of a board are, in the style of amaranth-boards."""
