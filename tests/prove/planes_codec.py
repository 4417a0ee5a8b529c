# SPDX-License-Identifier: BSD-2-Clause
"""The lanes of the planes codec against the rounding of the wire format's section 9, in integers."""

from functools import partial

from amaranth.hdl import Cat, Const, Mux, Value
from harness import Fault, Harness, Proof, first_of
from paper_codec import parts

from inceptionn.hdl.codec.planes.lane_dequantiser import LaneDequantiser
from inceptionn.hdl.codec.planes.lane_quantiser import Z_BITS, LaneQuantiser
from inceptionn.wire import BF16_LANES, FP32_LANES, MANTISSA_BITS, LaneType

LATEST = LaneQuantiser.LATENCY + 1
"""Cycles to ``lossy``, the last output of the quantiser."""


def any_e0(h: Harness) -> Value:
    e0 = h.any_constant(8, "e0")
    h.assume("E0 is 113 to 126", (e0 >= 113) & (e0 <= 126))
    return e0


def steps(lane: Value, e0: Value) -> tuple[Value, Value]:
    """Multiples of the step 2^(e0 - 126), rounded, ties away from zero; and whether the lane is raw.

    The lane is ``m * 2^(e - 150)``, so in steps ``m * 2^(e - e0) / 2^24``.
    """
    _, e, m = parts(lane)
    up = (e - e0)[:4]
    return Mux(e < e0, 0, ((m << up) + (1 << 23))[24:39]), e >= e0 + 14


def value_of(q: Value, s: Value, e0: Value) -> Value:
    """fp32 of ``q`` steps, exact: ``q`` has 15 bits at most."""
    top = first_of(q)
    mantissa = (q << (23 - top)[:5])[:23]
    return Mux(q == 0, 0, Cat(mantissa, (e0 + 1 + top)[:8], s))


def modulo_65535(total: Value) -> Value:
    """0 to 65534, of a number of up to 19 bits."""
    once = total[:16] + total[16:]
    twice = once[:16] + once[16:]
    return Mux(twice == 65535, 0, twice[:16])


def lane_quantiser(kind: LaneType, h: Harness) -> None:
    """Claim that a lane is judged as the upper bits of an fp32 word."""
    e0, dut = any_e0(h), LaneQuantiser(kind)
    h.add(dut)
    lane, present = h.anything(8 * kind.bytes, "lane"), h.anything(1, "present")
    h.m.d.comb += [dut.lane.eq(lane), dut.present.eq(present), dut.e0.eq(e0)]
    below = Const(0, MANTISSA_BITS - kind.mantissa_bits)
    late, there = Cat(below, h.past(lane, LATEST)), h.past(present, LATEST)
    restored = Cat(below, dut.lossy)
    running = h.running(LATEST)
    q, raw = steps(late, e0)
    s = late[31]
    gains = Cat(below, dut.gained)
    z, is_raw, gained, carry = (h.past(value) for value in (dut.z, dut.raw, gains, dut.carry))
    h.claim("a lane is raw from e0 + 14 on, and only then", ~running | (is_raw == (there & raw)))
    h.claim(
        "z is 2q - s of the nearest multiple, ties away from zero; 0 for a zero",
        ~running | (there & raw) | (z == Mux(there & (q != 0), (q << 1) - s, 0)),
    )
    lossy = Mux(~there, 0, Mux(raw, late, value_of(q, s, e0)))
    h.claim("lossy is the multiple, or the raw lane", ~running | (restored == lossy))
    was = Mux(there, late, 0)
    total = was[:16] + was[16:] + gained[:16] + gained[16:] + carry
    h.claim(
        "gained + carry is what the checksum gains, modulo 65535",
        ~running | (modulo_65535(total) == modulo_65535(lossy[:16] + lossy[16:])),
    )
    _, e, m = parts(late)
    exact, rounded = m << (e - e0)[:4], q << 24
    h.claim(
        "the error is at most half a step",
        ~running | raw | (e < e0) | ((exact - rounded <= 1 << 23) & (rounded - exact <= 1 << 23)),
    )
    h.cover(f"a lane of {kind.planes} planes", running & there & ~raw & z[-1])
    h.cover("a raw lane", running & is_raw & (late[23:31] == 255))
    h.cover("a lane rounded up into the next exponent", running & there & (restored[23:31] > e) & (q != 0))


def lane_dequantiser(bf16: bool, h: Harness) -> None:
    """With ``bf16``, each word may be two bf16 lanes instead."""
    e0, dut = any_e0(h), LaneDequantiser(bf16=bf16)
    h.add(dut)
    z, word = h.anything(Z_BITS, "z"), h.anything(32, "word")
    is_raw, absent = h.anything(1, "is_raw"), h.anything(1, "absent")
    is_bf16 = h.anything(1, "is_bf16") if bf16 else Const(0, 1)
    even = h.anything(BF16_LANES.planes, "even") if bf16 else Const(0, BF16_LANES.planes)
    h.m.d.comb += [
        dut.z.eq(z), dut.word.eq(word), dut.is_raw.eq(is_raw), dut.absent.eq(absent),
        dut.e0.eq(Cat(e0[:7], is_bf16)), *([dut.even.eq(even)] if bf16 else []),
    ]  # fmt: skip
    late_z, late_even, late_word, raw, gone, late_bf16 = (
        h.past(value, dut.LATENCY) for value in (z, even, word, is_raw, absent, is_bf16)
    )
    running = h.running(dut.LATENCY)
    fp32 = value_of((late_z >> 1) + late_z[0], late_z[0], e0)
    h.claim(
        "the value is (z >> 1) + (z & 1) steps, negative for odd z; or the raw word",
        ~running | late_bf16 | (dut.value == Mux(raw, late_word, fp32)),
    )
    any_set = late_z != 0
    if bf16:
        # To cut an fp32 value to 8 significant bits is to keep its upper half.
        pair = Cat(value_of((late_even >> 1) + late_even[0], late_even[0], e0)[16:], fp32[16:])
        h.claim(
            "two bf16 lanes are those values, cut to 8 significant bits; or the raw word",
            ~running | ~late_bf16 | (dut.value == Mux(raw, late_word, pair)),
        )
        any_set = any_set | (late_bf16 & (late_even != 0))
        h.cover("two bf16 lanes that are cut", running & late_bf16 & ~raw & fp32[12] & (late_even > 1 << 11))
    h.claim(
        "an absent lane is impossible unless it is zero",
        ~running | (dut.impossible == (gone & Mux(raw, late_word != 0, any_set))),
    )
    h.cover("the largest integer", running & ~late_bf16 & (late_z == (1 << Z_BITS) - 1) & ~raw)
    h.cover("an impossible lane", running & dut.impossible)


def round_trip(h: Harness) -> None:
    e0 = any_e0(h)
    first, back, again = LaneQuantiser(), LaneDequantiser(), LaneQuantiser()
    lane = h.anything(32, "lane")
    for name, block in (("first", first), ("again", again)):
        h.add(block, name)
        h.m.d.comb += [block.present.eq(1), block.e0.eq(e0)]
    h.add(back, "back")
    h.m.d.comb += [
        first.lane.eq(lane),
        back.z.eq(h.past(first.z)), back.is_raw.eq(h.past(first.raw)), back.word.eq(first.lossy),
        back.absent.eq(0), back.e0.eq(e0), again.lane.eq(back.value),
    ]  # fmt: skip
    there = h.running(LATEST + back.LATENCY)
    h.claim("the dequantiser restores lossy", ~there | (back.value == h.past(first.lossy, back.LATENCY)))
    twice = h.running(2 * LATEST + back.LATENCY)
    h.claim(
        "quantising what was restored changes nothing", ~twice | (again.lossy == h.past(back.value, LATEST))
    )
    h.cover("a lane that rounding changes", twice & (again.lossy != h.past(lane, 2 * LATEST + back.LATENCY)))


def bf16_round_trip(h: Harness) -> None:
    """Two lanes of a word: a quantiser of fp32 takes the odd one above zeros, a narrow one the even."""
    e0 = any_e0(h)
    pair, other = h.anything(32, "pair"), h.anything(1, "other")
    back = LaneDequantiser(bf16=True)
    quantisers = {}
    for name, word in (("first", pair), ("again", back.value)):
        odd, even = quantisers[name] = LaneQuantiser(), LaneQuantiser(BF16_LANES)
        h.add(odd, f"{name}_odd")
        h.add(even, f"{name}_even")
        h.m.d.comb += [odd.lane.eq(Cat(Const(0, 16), word[16:])), even.lane.eq(word[:16])]
        for block in (odd, even):
            h.m.d.comb += [block.present.eq(1), block.e0.eq(e0)]
    h.add(back, "back")
    odd, even = quantisers["first"]
    lossy = Cat(even.lossy, odd.lossy[16:])
    # A raw lane of the group makes all of them raw.
    raw = odd.raw | even.raw | other
    h.m.d.comb += [
        back.z.eq(h.past(odd.z)), back.even.eq(h.past(even.z)), back.is_raw.eq(h.past(raw)),
        back.word.eq(lossy), back.absent.eq(0), back.e0.eq(Cat(e0[:7], Const(1, 1))),
    ]  # fmt: skip
    running, late = h.running(LATEST), h.past(pair, LATEST)
    there = h.running(LATEST + back.LATENCY)
    h.claim("the dequantiser restores both lossy lanes", ~there | (back.value == h.past(lossy, back.LATENCY)))
    h.claim(
        "the odd lane's lossy word and integer are no longer than bf16's",
        ~running | ((odd.lossy[:16] == 0) & (h.past(odd.raw) | ~h.past(odd.z)[-1])),
    )
    h.claim(
        "both quantisers agree on equal lanes",
        ~running
        | (late[:16] != late[16:])
        | ((odd.lossy[16:] == even.lossy) & h.past((odd.raw == even.raw) & (odd.raw | (odd.z == even.z)))),
    )
    twice = h.running(2 * LATEST + back.LATENCY)
    odd, even = quantisers["again"]
    h.claim(
        "quantising what was restored changes nothing",
        ~twice | (Cat(even.lossy, odd.lossy[16:]) == h.past(back.value, LATEST)),
    )
    late = h.past(late, back.LATENCY)
    h.cover(
        "a pair that rounding changes",
        there & (back.value[:16] != late[:16]) & (back.value[16:] != late[16:]) & back.value[:8].any(),
    )


_QUANTISER, _DEQUANTISER = "codec.planes.lane_quantiser", "codec.planes.lane_dequantiser"
PROOFS = (
    Proof("lane_quantiser", partial(lane_quantiser, FP32_LANES), LATEST + 2, (
        Fault(_QUANTISER, "p.shift == place + 1", "p.shift == place + 2"),
        Fault(_QUANTISER, "Mux(large, 0,", "Mux(large, 1,"),
        Fault(_QUANTISER, "p.above < 0", "p.above < 1"),
        Fault(_QUANTISER, "carry=~rounded_down & (shift != 0)", "carry=~rounded_down"),
        Fault(_QUANTISER, "p.shift <= place +", "p.shift < place +"),
    )),
    Proof("lane_quantiser, bf16", partial(lane_quantiser, BF16_LANES), LATEST + 2, (
        Fault(_QUANTISER, "(shift <= lacks)", "(shift < lacks)"),
        Fault(_QUANTISER, "p.shift == place + 1", "p.shift == place + 2"),
    )),
    Proof("lane_dequantiser", partial(lane_dequantiser, False), LaneDequantiser.LATENCY + 2, (
        Fault(_DEQUANTISER, "_BASE_ABOVE_E0 = 16", "_BASE_ABOVE_E0 = 15"),
        Fault(_DEQUANTISER, "(any_set | p.word_set)", "any_set"),
    )),
    Proof("lane_dequantiser, bf16", partial(lane_dequantiser, True), LaneDequantiser.LATENCY + 2, (
        Fault(_DEQUANTISER, "p.bf16, even_value[16:], value[:16]", "p.bf16, even_value[15:31], value[:16]"),
        Fault(_DEQUANTISER, "any_set = any_set | even.any_set", "any_set = any_set"),
        Fault(_DEQUANTISER, "~p.is_raw & p.bf16 if prefix", "~p.is_raw if prefix"),
    )),
    Proof("lane_quantiser, round trip", round_trip, 2 * LATEST + LaneDequantiser.LATENCY + 2, (
        Fault(_QUANTISER, " + p.rounded[-1]", ""),
        Fault("codec.normalise", "Const(1, 2), by_4", "Const(0, 2), by_4"),
    )),
    Proof("lane_quantiser, bf16 round trip", bf16_round_trip, 2 * LATEST + LaneDequantiser.LATENCY + 2, (
        Fault(_QUANTISER, "(p.shift <= place + lacks)", "(p.shift < place + lacks)"),
        Fault(_DEQUANTISER, "Cat(Const(0, 16), self.word[:16])", "self.word"),
    )),
)  # fmt: skip
