# SPDX-License-Identifier: BSD-2-Clause
"""Lane quantiser: one fp32 lane to a whole number of steps (wire format, section 9)."""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from inceptionn.wire import MANTISSA_BITS, RAW_EXPONENT

from ...parts.pipeline import Pipeline

Z_BITS = 15
"""Bits of a quantised lane: ``z = 2q - s`` is at most 2^14."""
_FRACTION = 10
"""Lowest mantissa bit that a lane with the finest step, 2^-13 of its leading bit, can keep."""


class LaneQuantiser(wiring.Component):
    """Rounds one fp32 lane per cycle to the nearest multiple of the step 2^(E0-126), ties away from zero.

    Nothing stalls: what enters in cycle *t* leaves in cycle *t* + :attr:`LATENCY`. A lane with an exponent
    below ``e0`` becomes zero. From ``e0 + 14`` on, infinities and NaNs included, a lane is raw and keeps its
    bits.

    ``e0`` must be 113 to 126.
    """

    LATENCY = 6

    lane: In(32)  #: fp32 bits.
    present: In(1)  #: Low for a lane after the end of its block, which counts as zero.
    e0: In(8)  #: Read together with ``lane``.
    #: The integer ``2q - s``, of *q* steps and the sign *s*; 0 for a zero. Undefined for a raw lane.
    z: Out(Z_BITS)
    raw: Out(1)  #: The lane keeps its bits: its group needs code 15.
    lossy: Out(32)  #: The lane's restored value; one cycle after the other outputs.
    gained: Out(32)  #: See ``carry``.
    #: Modulo 65535, ``gained + carry`` is the lossy lane minus the original, both read as integers.
    carry: Out(1)

    def elaborate(self, platform: Any) -> Module:
        # `shift` is 14 - (e - e0), 1 to 14: the number of bits between the lowest mantissa bit that any lane
        # keeps, and the step. 0 stands for a raw lane and 15 for a zero, so that masks, half a step and the
        # shifter treat both without a case of their own.
        m = Module()
        p = Pipeline(m)
        p.let(lane=self.lane, present=self.present)

        # Stage 1: the exponent above E0, 9 bits. Stage 2: the shift.
        exponent = self.lane[MANTISSA_BITS : MANTISSA_BITS + 8]
        p.stage(above=exponent - self.e0)
        small = ~p.present | (p.above < 0)
        large = p.above >= RAW_EXPONENT
        p.stage(shift=Mux(small, 15, Mux(large, 0, (RAW_EXPONENT - p.above)[:4])))

        # Stage 3: add half a step to the significand. An absent lane is cleared, since what it gained counts:
        # by a register beside it, and so late that no delay of its bits becomes a shift register of LUTs.
        significand = Cat(p.lane[_FRACTION:MANTISSA_BITS], Const(1, 1))
        half = Cat(p.shift == place + 1 for place in range(len(significand)))
        p.stage(rounded=significand + half, lane=Mux(p.present, p.lane, 0))

        # Stage 4: the shift's high digit, in steps of 4; the bit below the step comes along.
        p.stage(quotient=(Cat(Const(0, 1), p.rounded) >> (p.shift[2:] << 2))[:16])

        # Stage 5: the low digit. The addition has inverted the bit below the step: it is 0 if it rounded up.
        p.stage(quotient=(p.quotient >> p.shift[:2])[:Z_BITS])

        # Stage 6: 2q - s, and what the lane gained. Rounded down it loses the bits below the step, and in
        # one's complement that is to add their complement. Rounded up it gains their complement and 1.
        rounded_down, shift, lane = p.quotient[0], p.shift, p.lane
        gained = Signal(32)
        for place in range(32):
            if place < _FRACTION:
                bit = ~lane[place] & (shift != 0)
            elif place <= MANTISSA_BITS:
                bit = Mux(shift > place - _FRACTION + 1, ~lane[place], rounded_down)
            else:
                bit = Mux(shift.all(), ~lane[place], rounded_down)
            m.d.comb += gained[place].eq(bit)
        sign = lane[31] & ~shift.all()
        p.stage(
            z=Cat(sign, (p.quotient[1:] - sign)[: Z_BITS - 1]),
            raw=shift == 0,
            gained=gained,
            carry=~rounded_down & (shift != 0) & ~shift.all(),
        )
        m.d.comb += [
            self.z.eq(p.z),
            self.raw.eq(p.raw),
            self.gained.eq(p.gained),
            self.carry.eq(p.carry),
        ]

        # Stage 7: the lossy lane, needed no earlier. The carry goes into the exponent; bits below the step
        # are cleared.
        zero, raw = p.shift.all(), p.shift == 0
        upper = Cat(p.lane[MANTISSA_BITS : MANTISSA_BITS + 8] + p.rounded[-1])[:8]
        mantissa = Cat(p.rounded[place] & (p.shift <= place) for place in range(MANTISSA_BITS - _FRACTION))
        low = Mux(raw, p.lane[:_FRACTION], 0)
        p.stage(lossy=Cat(low, mantissa, Mux(zero, 0, Cat(upper, p.lane[31]))))
        m.d.comb += self.lossy.eq(p.lossy)
        return m
