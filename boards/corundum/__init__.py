# SPDX-License-Identifier: BSD-2-Clause
"""Corundum's application block: target, port list, shell."""
