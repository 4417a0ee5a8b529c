# SPDX-License-Identifier: BSD-2-Clause
"""One lane's decompressor: Algorithm 3 of the paper."""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from inceptionn.wire import EXPONENT_BIAS, Tag


def _floor(base: Value) -> Value:
    """Least left shift (0..6) at which an 8-bit vector's exponent falls below 1, or 7 for none; 3 bits.

    ``base - (shift + 1) < 1``, that is ``shift >= base - 1``.
    """
    return Mux(base == 0, 0, Mux(base >= 8, 7, (base - 1)[:3]))


class DecompressionBlock(wiring.Component):
    """Tag and vector of one lane to its fp32 value (the paper's Decompression Block, Algorithm 3).

    Bits of ``vector`` beyond the tag's size are ignored. With tag ``BITS8`` or ``BITS16`` the value is
    ``sign``, exponent ``base - p`` and the bits behind the leading 1, where ``p`` is the 1-based position
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
        sync = m.d.sync

        # Stage 1: sign, magnitude in 15 bits, zero tests.
        magnitude = Signal(15)
        is_short = self.tag == Tag.BITS8
        is_vector = is_short | (self.tag == Tag.BITS16)
        m.d.comb += magnitude.eq(Mux(is_short, self.vector[:7] << 8, self.vector[:15]))
        magnitude_1 = Signal(15, reset_less=True)
        raw_1 = Signal(32, reset_less=True)
        sign_1 = Signal(reset_less=True)
        high_zero_1 = Signal(reset_less=True)
        top_zero_1 = Signal(reset_less=True)
        middle_zero_1 = Signal(reset_less=True)
        base_1 = Signal(8, reset_less=True)
        floor_1 = Signal(3, reset_less=True)
        is_raw_1 = Signal(reset_less=True)
        is_short_1 = Signal(reset_less=True)
        is_vector_1 = Signal(reset_less=True)
        sync += [
            magnitude_1.eq(magnitude),
            raw_1.eq(self.vector),
            sign_1.eq(Mux(is_short, self.vector[7], self.vector[15])),
            high_zero_1.eq(magnitude[7:15] == 0),
            top_zero_1.eq(magnitude[11:15] == 0),
            middle_zero_1.eq(magnitude[3:7] == 0),
            base_1.eq(Mux(is_short, self.base, EXPONENT_BIAS)),
            floor_1.eq(_floor(self.base)),
            is_raw_1.eq(self.tag == Tag.RAW),
            is_short_1.eq(is_short),
            is_vector_1.eq(is_vector),
        ]

        # Stage 2: shift by 8 and 4.
        by_8 = high_zero_1
        by_4 = Mux(high_zero_1, middle_zero_1, top_zero_1)
        shifted = Signal(15)
        m.d.comb += shifted.eq(
            Mux(
                by_8,
                Mux(middle_zero_1, magnitude_1[:3] << 12, magnitude_1[:7] << 8),
                Mux(top_zero_1, magnitude_1[:11] << 4, magnitude_1),
            )
        )
        magnitude_2 = Signal(15, reset_less=True)
        raw_2 = Signal(32, reset_less=True)
        sign_2 = Signal(reset_less=True)
        exponent_2 = Signal(8, reset_less=True)
        floor_2 = Signal(3, reset_less=True)
        by_4_2 = Signal(reset_less=True)
        is_short_2 = Signal(reset_less=True)
        sync += [
            magnitude_2.eq(Mux(is_vector_1, shifted, 0)),
            raw_2.eq(Mux(is_raw_1, raw_1, 0)),
            sign_2.eq(sign_1),
            exponent_2.eq(base_1 - Cat(Const(1, 2), by_4, by_8)),
            floor_2.eq(floor_1),
            by_4_2.eq(by_4),
            is_short_2.eq(is_short_1),
        ]

        # Stage 3: shift by 0..3, drop the leading 1.
        top = magnitude_2[11:15]
        by_low = Signal(2)
        any_set = Signal()
        m.d.comb += [
            by_low.eq(Mux(top[3], 0, Mux(top[2], 1, Mux(top[1], 2, 3)))),
            # After normalisation a 1 is in the top four bits or nowhere.
            any_set.eq(top.any()),
        ]
        fraction = Signal(15)
        with m.Switch(by_low):
            for shift in range(4):
                with m.Case(shift):
                    m.d.comb += fraction.eq(magnitude_2 << (shift + 1))
        exponent = (exponent_2 - by_low)[:8]
        value_3 = Signal(32, reset_less=True)
        impossible_3 = Signal(reset_less=True)
        sync += [
            value_3.eq(raw_2 | Cat(Const(0, 8), fraction, Mux(any_set, exponent, 0), any_set & sign_2)),
            impossible_3.eq(is_short_2 & any_set & (Cat(by_low, by_4_2) >= floor_2)),
        ]
        m.d.comb += [self.value.eq(value_3), self.impossible.eq(impossible_3)]
        return m
