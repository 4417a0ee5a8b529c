# SPDX-License-Identifier: BSD-2-Clause
"""Lane dequantiser: a number of steps to fp32 (wire format, section 9)."""

from typing import Any

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ...parts.pipeline import Pipeline
from ..normalise import normalise, zero_tests
from .lane_quantiser import Z_BITS

_BASE_ABOVE_E0 = 16
"""A magnitude of 15 bits with a leading 1 at the top is 2^14 steps of 2^(E0-126): exponent E0 + 15."""


class LaneDequantiser(wiring.Component):
    """One lane's integer ``z``, or its raw word, to its fp32 value.

    The value is ``(z >> 1) + (z & 1)`` steps of 2^(E0-126), negative if ``z`` is odd; +0.0 for 0. Exponents
    wrap for an ``e0`` outside 113 to 126.

    Free-running: a new lane every cycle, outputs ``LATENCY`` cycles after their inputs.
    """

    LATENCY = 4

    z: In(Z_BITS)  #: The lane's integer, ``2q - s``.
    word: In(32)  #: The lane's bits in a group with code 15.
    is_raw: In(1)  #: Take ``word``; ``z`` is ignored.
    absent: In(1)  #: The block does not have this lane.
    e0: In(8)  #: Parameter E0 of the codec.
    value: Out(32)  #: fp32 bits.
    impossible: Out(1)  #: The lane is absent and not zero.

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        p = Pipeline(m)
        p.let(raw=self.word, is_raw=self.is_raw, absent=self.absent, e0=self.e0)
        # Stage 1: steps. Stage 2: zero tests.
        p.stage(magnitude=self.z[1:] + self.z[0], sign=self.z[0])
        p.stage(
            **zero_tests(p.magnitude),
            is_vector=~p.is_raw,
            base=(p.e0 + _BASE_ABOVE_E0)[:8],
            word_set=p.is_raw & p.raw.any(),
        )
        # Stages 3 and 4.
        value = normalise(m, p)
        p.stage(value=value, impossible=p.absent & (p.any_set | p.word_set))
        m.d.comb += [self.value.eq(p.value), self.impossible.eq(p.impossible)]
        return m
