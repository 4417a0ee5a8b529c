# SPDX-License-Identifier: BSD-2-Clause
"""One lane's decompressor: Algorithm 3 of the paper."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from inceptionn.wire import EXPONENT_BIAS, Tag

from ...parts.pipeline import Pipeline
from ..normalise import normalise, zero_tests


def _floor(base: Value) -> Value:
    """Return the least left shift (0..6) that makes an 8-bit vector's exponent less than 1. 3 bits, 7: none.

    ``base - (shift + 1) < 1``, that is ``shift >= base - 1``.
    """
    return Mux(base == 0, 0, Mux(base >= 8, 7, (base - 1)[:3]))


class DecompressionBlock(wiring.Component):
    """Tag and vector of one lane to its fp32 value (the paper's Decompression Block, Algorithm 3).

    Bits of ``vector`` beyond the tag's size are ignored. With tag ``BITS8`` or ``BITS16`` the vector holds a
    sign and 7 or 15 bits of magnitude, whose leading 1 is the ``p``-th from the top. The value has that sign,
    the bits after the 1 as its mantissa, and the exponent ``base - p`` (``BITS8``) or ``127 - p``. Magnitude
    zero gives ``+0.0``. ``impossible``: the exponent of an 8-bit vector would fall below 1; ``value`` is then
    undefined.

    Free-running: a new lane every cycle, outputs ``LATENCY`` cycles after their inputs.
    """

    LATENCY = 3

    tag: In(2)  #: Class of the lane, one of :class:`~inceptionn.wire.paper.Tag`.
    vector: In(32)  #: The lane's kept bits, right-aligned.
    base: In(8)  #: Biased exponent that the 8-bit class is normalised to (B).
    value: Out(32)  #: fp32 bits.
    impossible: Out(1)  #: The exponent would fall below 1.

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        p = Pipeline(m)

        # Stage 1: sign, magnitude in 15 bits, zero tests.
        p.let(is_short=self.tag == Tag.BITS8)
        p.let(magnitude=Mux(p.is_short, self.vector[:7] << 8, self.vector[:15])[:15])
        p.stage(
            raw=self.vector,
            sign=Mux(p.is_short, self.vector[7], self.vector[15]),
            **zero_tests(p.magnitude),
            base=Mux(p.is_short, self.base, EXPONENT_BIAS),
            floor=_floor(self.base),
            is_raw=self.tag == Tag.RAW,
            is_vector=p.is_short | (self.tag == Tag.BITS16),
        )

        # Stages 2 and 3.
        value = normalise(m, p)
        p.stage(
            value=value,
            impossible=p.is_short & p.any_set & (Cat(p.by_low, p.by_4) >= p.floor),
        )
        m.d.comb += [self.value.eq(p.value), self.impossible.eq(p.impossible)]
        return m
