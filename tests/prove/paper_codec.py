# SPDX-License-Identifier: BSD-2-Clause
"""The lanes of the paper's codec against its Algorithms 2 and 3, written here from the paper's text."""

from amaranth.hdl import Array, C, Cat, Mux, Value
from harness import Fault, Harness, Proof, first_of

from inceptionn.hdl.codec.paper.compression_block import CompressionBlock
from inceptionn.hdl.codec.paper.decompression_block import DecompressionBlock
from inceptionn.wire import MAX_K, MIN_K, MODES, parameters

ZERO, BITS8, BITS16, RAW = range(4)


def parts(lane: Value) -> tuple[Value, Value, Value]:
    """Sign, exponent, and significand of 24 bits."""
    return lane[31], lane[23:31], Cat(lane[:23], C(1, 1))


def compressed(lane: Value, e0: Value, t: Value, b: Value) -> tuple[Value, Value]:
    """Algorithm 2: tag and vector, its parameters as they stand in the wire format."""
    s, e, one_m = parts(lane)
    shifted16, shifted8 = one_m >> (127 - e)[:8], one_m >> (b - e)[:8]
    tag = Mux(e >= 127, RAW, Mux(e < e0, ZERO, Mux(e >= t, BITS16, BITS8)))
    short, long = Cat(shifted8[16:23], s), Cat(shifted16[8:23], s)
    vector = Mux(tag == RAW, lane, Mux(tag == BITS16, long, Mux(tag == BITS8, short, 0)))
    return tag, vector


def restored(tag: Value, vector: Value, b: Value) -> tuple[Value, Value]:
    """Algorithm 3: the lane, and whether its exponent would fall below 1."""
    width = Mux(tag == BITS8, 7, 15)
    s = Mux(tag == BITS8, vector[7], vector[15])
    magnitude = Mux(tag == BITS8, vector[:7], vector[:15])
    top = first_of(magnitude)
    n_shift = width - top
    exponent = Mux(tag == BITS8, b, 127) - n_shift
    mantissa = (magnitude << (23 - top)[:5])[:23]
    small = ((tag == BITS8) | (tag == BITS16)) & (magnitude != 0)
    value = Mux(tag == RAW, vector, Mux(small, Cat(mantissa, exponent[:8], s), 0))
    return value, (tag == BITS8) & (magnitude != 0) & (exponent < 1)


def free_parameters(h: Harness) -> tuple[Value, Value, Value]:
    """E0, T and B, any that hardware accepts."""
    e0, t, b = (h.any_constant(8, name) for name in ("e0", "t", "b"))
    h.assume("1 <= E0 <= T <= 127 and T <= B", (e0 >= 1) & (e0 <= t) & (t <= 127) & (t <= b))
    return e0, t, b


def compression_block(h: Harness) -> None:
    e0, t, b = free_parameters(h)
    dut = CompressionBlock()
    h.add(dut)
    lane, present = h.anything(32, "lane"), h.anything(1, "present")
    h.m.d.comb += [dut.lane.eq(lane), dut.present.eq(present), dut.e0.eq(e0), dut.t.eq(t), dut.b.eq(b)]
    late, there = (h.past(value, dut.LATENCY) for value in (lane, present))
    running = h.running(dut.LATENCY)
    tag, vector = compressed(late, e0, t, b)
    value, impossible = restored(tag, vector, b)
    h.claim("the tag is that of Algorithm 2", ~running | (dut.tag == Mux(there, tag, ZERO)))
    h.claim("the vector is that of Algorithm 2", ~running | (dut.vector == Mux(there, vector, 0)))
    h.claim(
        "lane & ~cleared is what Algorithm 3 restores",
        ~running | (Mux(there, late & ~dut.cleared, 0) == Mux(there, value, 0)),
    )
    h.claim("an absent lane clears nothing", ~running | there | (dut.cleared == 0))
    h.claim("no encoder makes an impossible vector", ~impossible)
    for kind, name in enumerate(("00", "01", "10", "11")):
        h.cover(f"tag {name}", running & there & (dut.tag == kind) & late.any())


def decompression_block(h: Harness) -> None:
    dut = DecompressionBlock()
    h.add(dut)
    tag, vector, base = h.anything(2, "tag"), h.anything(32, "vector"), h.anything(8, "base")
    h.m.d.comb += [dut.tag.eq(tag), dut.vector.eq(vector), dut.base.eq(base)]
    running = h.running(dut.LATENCY)
    value, impossible = restored(*(h.past(x, dut.LATENCY) for x in (tag, vector, base)))
    h.claim("the value is that of Algorithm 3", ~running | impossible | (dut.value == value))
    h.claim(
        "a vector is impossible if and only if its exponent falls below 1",
        ~running | (dut.impossible == impossible),
    )
    h.cover("an impossible vector", running & dut.impossible)
    h.cover("a restored 8-bit lane", running & ~impossible & (dut.value[23:31] == 3))


def round_trip(h: Harness) -> None:
    """Compression, decompression and compression again, with the parameters of any bound and mode."""
    choice = h.any_constant(range(2 * MAX_K + 2), "choice")
    every = [parameters(max(k, MIN_K), mode) for mode in MODES for k in range(MAX_K + 1)]
    k = Mux(choice > MAX_K, choice - MAX_K - 1, choice)
    h.assume("a bound of 2^-1 to 2^-14, in a mode of the paper's codec", (choice < len(every)) & (k >= MIN_K))
    e0, t, b = (Array(C(getattr(p, name), 8) for p in every)[choice] for name in ("e0", "t", "b"))

    first, back, again = CompressionBlock(), DecompressionBlock(), CompressionBlock()
    lane = h.anything(32, "lane")
    for name, block in (("first", first), ("again", again)):
        h.add(block, name)
        h.m.d.comb += [block.present.eq(1), block.e0.eq(e0), block.t.eq(t), block.b.eq(b)]
    h.add(back, "back")
    h.m.d.comb += [
        first.lane.eq(lane),
        back.tag.eq(first.tag), back.vector.eq(first.vector), back.base.eq(b),
        again.lane.eq(back.value),
    ]  # fmt: skip
    there, restored_at = h.running(first.LATENCY + back.LATENCY), first.LATENCY + back.LATENCY
    late = h.past(lane, restored_at)
    lossy = back.value
    h.claim(
        "the decompressor restores lane & ~cleared",
        ~there | (lossy == late & ~h.past(first.cleared, back.LATENCY)),
    )
    h.claim("no vector of the compressor is impossible", ~there | ~back.impossible)
    s, e, m = parts(late)
    ls, le, lm = parts(lossy)
    lost = m - Mux(le == 0, 0, lm)
    # |x - lossy| = lost * 2^(e - 150). Mode literal keeps its bound at 2^-7 and coarser.
    kept = Mux((choice <= MAX_K) & (k > 7), 7, k)
    room = 150 - kept - e
    h.claim(
        "the error of a lane below 1.0 is at most the bound (literal: the bound, or 2^-7 if that is more)",
        ~there | (e >= 127) | ((lost >= 0) & ((room >= 24) | (lost <= C(1, 1) << room[:5]))),
    )
    h.claim("a lane keeps its sign, or becomes +0.0", ~there | (lossy == 0) | ((ls == s) & (le == e)))
    h.claim("lanes from 1.0 on, infinities and NaNs come back whole", ~there | (e < 127) | (lossy == late))
    twice = h.running(2 * first.LATENCY + back.LATENCY)
    h.claim("compressing what was restored loses nothing more", ~twice | (again.cleared == 0))
    h.claim(
        "and gives the same vector",
        ~twice
        | (h.past(lossy, again.LATENCY) == 0)
        | (again.vector == h.past(first.vector, back.LATENCY + again.LATENCY)),
    )
    h.cover("a lane of 8 bits that is not whole", twice & (again.tag == BITS8) & (late != lossy))
    h.cover("a lane of 16 bits", twice & (again.tag == BITS16) & again.vector.any())


_COMPRESSION = "codec.paper.compression_block"
PROOFS = (
    Proof("compression_block", compression_block, CompressionBlock.LATENCY + 2, (
        Fault(_COMPRESSION, "exponent >= EXPONENT_BIAS", "exponent > EXPONENT_BIAS"),
        Fault(_COMPRESSION, "8 + p.shift)", "7 + p.shift)"),
        Fault(_COMPRESSION, "p.amount[4:].any()", "p.amount[5:].any()"),
        Fault(_COMPRESSION, "Mux(present, 31, 0)", "31"),
    )),
    Proof("decompression_block", decompression_block, DecompressionBlock.LATENCY + 2, (
        Fault("codec.paper.decompression_block", "(base - 1)[:3]", "base[:3]"),
        Fault("codec.normalise", "magnitude[3:7] == 0", "magnitude[2:7] == 0"),
    )),
    Proof("compression_block, round trip", round_trip,
          2 * CompressionBlock.LATENCY + DecompressionBlock.LATENCY + 2, (
        Fault(_COMPRESSION, "16 + p.shift[:3]", "17 + p.shift[:3]"),
        Fault(_COMPRESSION, "exponent < self.e0", "exponent <= self.e0"),
        Fault("codec.paper.decompression_block", "self.base, EXPONENT_BIAS", "EXPONENT_BIAS, EXPONENT_BIAS"),
    )),
)  # fmt: skip
