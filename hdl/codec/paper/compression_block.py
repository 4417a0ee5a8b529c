# SPDX-License-Identifier: BSD-2-Clause
"""Compression Block: the paper's Algorithm 2 for one lane."""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from inceptionn.wire import EXPONENT_BIAS, MANTISSA_BITS, Tag


class CompressionBlock(wiring.Component):
    """Compresses one fp32 lane per cycle (Algorithm 2; wire format, section 1).

    A plain pipeline without stall: what enters in cycle *t* leaves in cycle *t* + :attr:`LATENCY`.
    With ``e`` the biased exponent and ``M`` the 24-bit significand, a lane below ``e0`` leaves as
    nothing, from 127 on as its 32 bits, and between them as its sign and the upper 7 (``e < t``)
    or 15 bits of ``M >> n`` below the leading one, where ``n`` is ``b - e`` or ``127 - e``.

    Parameters of the codec must satisfy ``1 <= e0 <= t <= 127`` and ``t <= b``.

    Members
    -------
    lane : :py:`In(32)`
        fp32 bits.
    present : :py:`In(1)`
        Low for a lane behind the end of its block: tag ``00``, nothing cleared.
    e0, t, b : :py:`In(8)`
        Codec parameters; read together with ``lane``.
    tag : :py:`Out(2)`
        Class of the lane, one of :class:`~inceptionn.wire.Tag`.
    vector : :py:`Out(32)`
        Kept bits, right-aligned, zero above.
    cleared : :py:`Out(32)`
        Bits of ``lane`` that the lossy value lacks: ``lossy == lane & ~cleared``.
    """

    LATENCY = 5

    lane: In(32)
    present: In(1)
    e0: In(8)
    t: In(8)
    b: In(8)
    tag: Out(2)
    vector: Out(32)
    cleared: Out(32)

    def elaborate(self, platform: Any) -> Module:
        m = Module()

        def register(name: str, width: int) -> Signal:
            return Signal(width, name=name, reset_less=True)

        # Stage 1: every comparison and both candidate shifts, side by side.
        exponent = self.lane[MANTISSA_BITS : MANTISSA_BITS + 8]
        lane1, present1 = register("lane1", 32), register("present1", 1)
        raw1, zero1, wide1 = register("raw1", 1), register("zero1", 1), register("wide1", 1)
        shift_wide1, shift_narrow1 = register("shift_wide1", 7), register("shift_narrow1", 8)
        m.d.sync += [
            lane1.eq(self.lane),
            present1.eq(self.present),
            raw1.eq(exponent >= EXPONENT_BIAS),
            zero1.eq(exponent < self.e0),
            wide1.eq(exponent >= self.t),
            shift_wide1.eq(~exponent[:7]),  # 127 - e for e <= 127
            shift_narrow1.eq(self.b - exponent),
        ]

        # Stage 2: tag and shift. A shift of 16 and more leaves no magnitude bit.
        lane2, tag2 = register("lane2", 32), register("tag2", 2)
        shift2, vanished2, present2 = register("shift2", 4), register("vanished2", 1), register("present2", 1)
        shift = Signal(8)
        m.d.comb += shift.eq(Mux(wide1, shift_wide1, shift_narrow1))
        m.d.sync += [
            lane2.eq(lane1),
            present2.eq(present1),
            shift2.eq(shift[:4]),
            vanished2.eq(shift[4:].any()),
            tag2.eq(
                Mux(
                    ~present1,
                    Tag.ZERO,
                    Mux(raw1, Tag.RAW, Mux(zero1, Tag.ZERO, Mux(wide1, Tag.BITS16, Tag.BITS8))),
                )
            ),
        ]

        # Stage 3: the shift's high digit, in steps of 4; only bits 23..8 can still be kept.
        # ``reach``: mantissa bits below it are cleared; 31 clears the whole lane.
        lane3, tag3, digit3 = register("lane3", 32), register("tag3", 2), register("digit3", 2)
        kept3, reach3 = register("kept3", 16), register("reach3", 5)
        significand = Signal(24)
        m.d.comb += significand.eq(Cat(lane2[:MANTISSA_BITS], Const(1, 1)))
        m.d.sync += [
            lane3.eq(lane2),
            tag3.eq(tag2),
            digit3.eq(shift2[:2]),
            kept3.eq(Mux(vanished2, 0, (significand >> (shift2[2:] << 2))[8:24])),
        ]
        with m.Switch(tag2):
            with m.Case(Tag.ZERO):
                m.d.sync += reach3.eq(Mux(present2, 31, 0))
            with m.Case(Tag.BITS8):
                m.d.sync += reach3.eq(Mux(vanished2 | shift2[3], 31, 16 + shift2[:3]))
            with m.Case(Tag.BITS16):
                m.d.sync += reach3.eq(Mux(vanished2, 31, 8 + shift2))
            with m.Case(Tag.RAW):
                m.d.sync += reach3.eq(0)

        # Stage 4: the low digit.
        lane4, tag4, kept4 = register("lane4", 32), register("tag4", 2), register("kept4", 15)
        cleared4 = register("cleared4", 32)
        m.d.sync += [lane4.eq(lane3), tag4.eq(tag3), kept4.eq((kept3 >> digit3)[:15])]
        for i in range(32):
            m.d.sync += cleared4[i].eq(lane3[i] & (reach3 > min(i, 30)))

        # Stage 5: the class picks its vector.
        sign = lane4[31]
        with m.Switch(tag4):
            with m.Case(Tag.ZERO):
                m.d.sync += self.vector.eq(0)
            with m.Case(Tag.BITS8):
                m.d.sync += self.vector.eq(Cat(kept4[8:15], sign))
            with m.Case(Tag.BITS16):
                m.d.sync += self.vector.eq(Cat(kept4, sign))
            with m.Case(Tag.RAW):
                m.d.sync += self.vector.eq(lane4)
        m.d.sync += [self.tag.eq(tag4), self.cleared.eq(cleared4)]
        return m
