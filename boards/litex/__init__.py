# SPDX-License-Identifier: BSD-2-Clause
"""LiteX and LiteEth: target, shell, and the Python files of a design."""
