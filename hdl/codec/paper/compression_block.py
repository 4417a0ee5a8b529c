# SPDX-License-Identifier: BSD-2-Clause
"""Compression Block: the paper's Algorithm 2 for one lane."""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from inceptionn.wire import EXPONENT_BIAS, MANTISSA_BITS, Tag

from ...parts.pipeline import Pipeline


class CompressionBlock(wiring.Component):
    """Compresses one fp32 lane per cycle (Algorithm 2; wire format, section 1).

    Nothing stalls: what enters in cycle *t* leaves in cycle *t* + :attr:`LATENCY`. With ``e`` the biased
    exponent and ``M`` the 24-bit significand, a lane keeps

    - nothing if ``e < e0``,
    - its sign and bits 22 to 16 of ``M >> (b - e)`` if ``e0 <= e < t``,
    - its sign and bits 22 to 8 of ``M >> (127 - e)`` if ``t <= e < 127``,
    - all 32 bits if ``e >= 127``.

    Parameters of the codec must satisfy ``1 <= e0 <= t <= 127`` and ``t <= b``.
    """

    LATENCY = 5

    lane: In(32)  #: fp32 bits.
    present: In(1)  #: Low for a lane after the end of its block: tag ``00``, nothing cleared.
    e0: In(8)  #: Parameter E0 of the codec; read together with ``lane``.
    t: In(8)  #: Parameter T, likewise.
    b: In(8)  #: Parameter B, likewise.
    tag: Out(2)  #: Class of the lane, one of :class:`~inceptionn.wire.paper.Tag`.
    vector: Out(32)  #: Kept bits, right-aligned, zero above.
    cleared: Out(32)  #: Bits of ``lane`` that the lossy value lacks: ``lossy == lane & ~cleared``.

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        p = Pipeline(m)

        # Stage 1: every comparison and both candidate shifts, side by side.
        exponent = self.lane[MANTISSA_BITS : MANTISSA_BITS + 8]
        p.let(lane=self.lane, present=self.present)
        p.stage(
            raw=exponent >= EXPONENT_BIAS,
            zero=exponent < self.e0,
            wide=exponent >= self.t,
            shift_wide=~exponent[:7],  # 127 - e for e <= 127
            shift_narrow=(self.b - exponent)[:8],
        )

        # Stage 2: tag and shift. A shift of 16 and more leaves no magnitude bit.
        p.let(amount=Mux(p.wide, p.shift_wide, p.shift_narrow))
        kept_tag = Mux(p.raw, Tag.RAW, Mux(p.zero, Tag.ZERO, Mux(p.wide, Tag.BITS16, Tag.BITS8)))
        p.stage(
            shift=p.amount[:4],
            vanished=p.amount[4:].any(),
            tag=Mux(~p.present, Tag.ZERO, kept_tag),
        )

        # Stage 3: the shift's high digit, in steps of 4; only bits 23..8 can still be kept.
        # `reach`: mantissa bits below it are cleared; 31 clears the whole lane.
        significand = Cat(p.lane[:MANTISSA_BITS], Const(1, 1))
        present = p.present
        reach = Signal(5)
        with m.Switch(p.tag):
            with m.Case(Tag.ZERO):
                m.d.comb += reach.eq(Mux(present, 31, 0))
            with m.Case(Tag.BITS8):
                m.d.comb += reach.eq(Mux(p.vanished | p.shift[3], 31, 16 + p.shift[:3]))
            with m.Case(Tag.BITS16):
                m.d.comb += reach.eq(Mux(p.vanished, 31, 8 + p.shift))
            with m.Case(Tag.RAW):
                m.d.comb += reach.eq(0)
        p.stage(
            digit=p.shift[:2],
            kept=Mux(p.vanished, 0, (significand >> (p.shift[2:] << 2))[8:24]),
            reach=reach,
        )

        # Stage 4: the low digit.
        p.stage(
            kept=(p.kept >> p.digit)[:15],
            cleared=Cat(p.lane[i] & (p.reach > min(i, 30)) for i in range(32)),
        )

        # Stage 5: the class picks its vector. It is a data register: a reset would be one more input.
        vector = Signal(32, reset_less=True)
        m.d.comb += self.vector.eq(vector)
        lane, sign = p.lane, p.lane[31]
        with m.Switch(p.tag):
            with m.Case(Tag.ZERO):
                m.d.sync += vector.eq(0)
            with m.Case(Tag.BITS8):
                m.d.sync += vector.eq(Cat(p.kept[8:15], sign))
            with m.Case(Tag.BITS16):
                m.d.sync += vector.eq(Cat(p.kept, sign))
            with m.Case(Tag.RAW):
                m.d.sync += vector.eq(lane)
        m.d.sync += [self.tag.eq(p.tag), self.cleared.eq(p.cleared)]
        return m
