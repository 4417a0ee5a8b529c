# SPDX-License-Identifier: BSD-2-Clause
"""Lane quantiser: one lane to a whole number of steps (wire format, sections 9 and 10)."""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from inceptionn.wire import FP32_LANES, MANTISSA_BITS, RAW_EXPONENT, LaneType

from ...parts.pipeline import Pipeline

Z_BITS = FP32_LANES.planes
"""Bits of a quantised lane: ``z = 2q - s`` is at most 2^14."""
_FRACTION = 10
"""Lowest mantissa bit of fp32 that a lane with the finest step, 2^-13 of its leading bit, can keep."""


class LaneQuantiser(wiring.Component):
    """Rounds one lane per cycle to the nearest multiple of the step 2^(E0-126), ties away from zero.

    Nothing stalls: what enters in cycle *t* leaves in cycle *t* + :attr:`LATENCY`. A lane with an exponent
    below ``e0`` becomes zero. From ``e0 + 14`` on, infinities and NaNs included, a lane is raw and keeps its
    bits.

    ``e0`` must be 113 to 126. A bf16 lane is the upper half of an fp32 word, so a quantiser of fp32 takes one
    above 16 zeros; ``gained`` is then 0 or -0 modulo 65535 in its lower half.

    Parameters
    ----------
    kind : :class:`~inceptionn.wire.LaneType`
        The lane's type; the narrower one is a smaller circuit with the same latency.
    """

    LATENCY = 6

    def __init__(self, kind: LaneType = FP32_LANES):
        self.kind = kind
        bits = 8 * kind.bytes
        super().__init__(
            {
                "lane": In(bits),  #: The lane's bits.
                "present": In(1),  #: Low for a lane after the end of its block, which counts as zero.
                "e0": In(8),  #: Read together with ``lane``.
                #: The integer ``2q - s``, of *q* steps and the sign *s*; 0 for a zero. Undefined for a raw
                #: lane.
                "z": Out(kind.planes),
                "raw": Out(1),  #: The lane keeps its bits: its group needs code 15.
                "lossy": Out(bits),  #: The lane's restored value; one cycle after the other outputs.
                "gained": Out(bits),  #: See ``carry``.
                #: Modulo 65535, ``gained + carry`` is the lossy lane minus the original, both read as
                #: integers.
                "carry": Out(1),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        # `shift` is 14 - (e - e0), 1 to 14: the number of bits between the lowest mantissa bit that any lane
        # keeps, and the step. 0 stands for a raw lane and 15 for a zero, so that masks, half a step and the
        # shifter treat both without a case of their own.
        m = Module()
        p = Pipeline(m)
        self.probes = {"stages": p}
        p.let(lane=self.lane, present=self.present)
        mantissa_bits = self.kind.mantissa_bits
        # Lowest mantissa bit that can be kept, and how many bits fp32 has between it and its own.
        fraction = max(0, _FRACTION - (MANTISSA_BITS - mantissa_bits))
        lacks = fraction + MANTISSA_BITS - mantissa_bits - _FRACTION

        # Stage 1: the exponent above E0, 9 bits. Stage 2: the shift.
        exponent = self.lane[mantissa_bits : mantissa_bits + 8]
        p.stage(above=exponent - self.e0)
        small = ~p.present | (p.above < 0)
        large = p.above >= RAW_EXPONENT
        p.stage(shift=Mux(small, 15, Mux(large, 0, (RAW_EXPONENT - p.above)[:4])))

        # Stage 3: add half a step to the significand. An absent lane is cleared, since what it gained counts:
        # by a register beside it, and so late that no delay of its bits becomes a shift register of LUTs.
        significand = Cat(p.lane[fraction:mantissa_bits], Const(1, 1))
        half = Cat(p.shift == place + 1 + lacks for place in range(len(significand)))
        p.stage(rounded=significand + half, lane=Mux(p.present, p.lane, 0))

        # Stage 4: the shift's high digit, in steps of 4; the bit below the step comes along.
        p.stage(quotient=(Cat(Const(0, 1 + lacks), p.rounded) >> (p.shift[2:] << 2))[:16])

        # Stage 5: the low digit. The addition has inverted the bit below the step: it is 0 if it rounded up.
        p.stage(
            quotient=(p.quotient >> p.shift[:2])[: self.kind.planes],
            sign=p.lane[-1] & ~p.shift.all(),  # of what is no zero
        )

        # Stage 6: 2q - s, and what the lane gained. Rounded down it loses the bits below the step, and in
        # one's complement that is to add their complement. Rounded up it gains their complement and 1.
        rounded_down, shift, lane = p.quotient[0], p.shift, p.lane
        if lacks:  # a step below the mantissa needs no rounding
            rounded_down = rounded_down | ((shift != 0) & (shift <= lacks))
        gained = Signal.like(self.gained)
        for place in range(len(lane)):
            if place < fraction:
                bit = ~lane[place] & (shift != 0)
            elif place <= mantissa_bits:
                bit = Mux(shift > place - fraction + 1 + lacks, ~lane[place], rounded_down)
            else:
                bit = Mux(shift.all(), ~lane[place], rounded_down)
            m.d.comb += gained[place].eq(bit)
        p.stage(
            z=Cat(p.sign, (p.quotient[1:] - p.sign)[: self.kind.planes - 1]),
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
        upper = Cat(p.lane[mantissa_bits : mantissa_bits + 8] + p.rounded[-1])[:8]
        kept = range(mantissa_bits - fraction)
        mantissa = Cat(p.rounded[place] & (p.shift <= place + lacks) for place in kept)
        low = Mux(raw, p.lane[:fraction], 0)[:fraction]
        p.stage(lossy=Cat(low, mantissa, Mux(zero, 0, Cat(upper, p.lane[-1]))))
        m.d.comb += self.lossy.eq(p.lossy)
        return m
