# SPDX-License-Identifier: BSD-2-Clause
"""One lane's decompressor: Algorithm 3 of the paper."""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from inceptionn.wire import EXPONENT_BIAS, Tag

from ...parts.pipeline import Pipeline


def _floor(base: Value) -> Value:
    """Least left shift (0..6) at which an 8-bit vector's exponent falls below 1, or 7 for none; 3 bits.

    ``base - (shift + 1) < 1``, that is ``shift >= base - 1``.
    """
    return Mux(base == 0, 0, Mux(base >= 8, 7, (base - 1)[:3]))


class DecompressionBlock(wiring.Component):
    """Tag and vector of one lane to its fp32 value (the paper's Decompression Block, Algorithm 3).

    Bits of ``vector`` beyond the tag's size are ignored. With tag ``BITS8`` or ``BITS16`` the value is
    ``sign``, exponent ``base - p`` and the bits after the leading 1, where ``p`` is the 1-based position
    of that 1 from the top of the 7 or 15 magnitude bits, and ``base`` is ``base`` or 127. Magnitude zero
    gives ``+0.0``. ``impossible`` says that the exponent of an 8-bit vector would fall below 1; ``value`` is
    undefined then.

    Free-running: a new lane every cycle, outputs ``LATENCY`` cycles after their inputs.

    Members
    -------
    tag : :py:`In(2)`
    vector : :py:`In(32)`
        The lane's kept bits, right-aligned.
    base : :py:`In(8)`
        Biased exponent that the 8-bit class is normalised to (B).
    value : :py:`Out(32)`
    impossible : :py:`Out(1)`
    """

    LATENCY = 3

    tag: In(2)
    vector: In(32)
    base: In(8)
    value: Out(32)
    impossible: Out(1)

    def elaborate(self, platform: Any) -> Module:
        # Normalisation by halves: three zero tests on the incoming vector tell the shift by 8 and by
        # 4, the top nibble of what is left tells the rest. Lanes without magnitude carry zeros
        # through the shifter and raw lanes zeros beside it, so that the two only need an OR at the end.
        m = Module()
        p = Pipeline(m)

        # Stage 1: sign, magnitude in 15 bits, zero tests.
        p.let(is_short=self.tag == Tag.BITS8)
        p.let(magnitude=Mux(p.is_short, self.vector[:7] << 8, self.vector[:15])[:15])
        p.stage(
            raw=self.vector,
            sign=Mux(p.is_short, self.vector[7], self.vector[15]),
            high_zero=p.magnitude[7:15] == 0,
            top_zero=p.magnitude[11:15] == 0,
            middle_zero=p.magnitude[3:7] == 0,
            base=Mux(p.is_short, self.base, EXPONENT_BIAS),
            floor=_floor(self.base),
            is_raw=self.tag == Tag.RAW,
            is_vector=p.is_short | (self.tag == Tag.BITS16),
        )

        # Stage 2: shift by 8 and 4.
        by_8 = p.high_zero
        by_4 = Mux(p.high_zero, p.middle_zero, p.top_zero)
        p.let(
            shifted=Mux(
                by_8,
                Mux(p.middle_zero, p.magnitude[:3] << 12, p.magnitude[:7] << 8),
                Mux(p.top_zero, p.magnitude[:11] << 4, p.magnitude),
            )[:15]
        )
        p.stage(
            magnitude=Mux(p.is_vector, p.shifted, 0),
            raw=Mux(p.is_raw, p.raw, 0),
            exponent=(p.base - Cat(Const(1, 2), by_4, by_8))[:8],
            by_4=by_4,
        )

        # Stage 3: shift by 0..3, drop the leading 1.
        top = p.magnitude[11:15]
        p.let(
            by_low=Mux(top[3], 0, Mux(top[2], 1, Mux(top[1], 2, 3))),
            # After normalisation a 1 is in the top four bits or nowhere.
            any_set=top.any(),
        )
        fraction = Signal(15)
        with m.Switch(p.by_low):
            for shift in range(4):
                with m.Case(shift):
                    m.d.comb += fraction.eq(p.magnitude << (shift + 1))
        exponent = Mux(p.any_set, (p.exponent - p.by_low)[:8], 0)
        p.stage(
            value=p.raw | Cat(Const(0, 8), fraction, exponent, p.any_set & p.sign),
            impossible=p.is_short & p.any_set & (Cat(p.by_low, p.by_4) >= p.floor),
        )
        m.d.comb += [self.value.eq(p.value), self.impossible.eq(p.impossible)]
        return m
