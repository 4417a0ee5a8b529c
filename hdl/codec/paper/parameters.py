# SPDX-License-Identifier: BSD-2-Clause
"""Circuit of the rule for the paper's parameters (:attr:`inceptionn.wire.paper.Parameters.valid`)."""

from amaranth.hdl import Value

from inceptionn.wire import EXPONENT_BIAS


def usable(e0: Value, t: Value, b: Value) -> Value:
    """Return whether the engine can compress with these numbers, 8 bits each: 1 bit."""
    return (e0 >= 1) & (e0 <= t) & (t <= EXPONENT_BIAS) & (t <= b)
