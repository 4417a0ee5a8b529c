# SPDX-License-Identifier: BSD-2-Clause
"""Inline devices in simulation, with PHYs at their ports and a terminal at their serial lines."""
