# SPDX-License-Identifier: BSD-2-Clause
"""Comparisons."""

from amaranth.hdl import Value


def in_range(value: Value, values: range) -> Value:
    """Test that ``value`` is one of ``values``."""
    return (value >= values[0]) & (value <= values[-1])
