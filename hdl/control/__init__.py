# SPDX-License-Identifier: BSD-2-Clause
"""Settings and counters: the register map, AXI4-Lite, the engines' reports."""
