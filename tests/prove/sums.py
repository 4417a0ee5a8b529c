# SPDX-License-Identifier: BSD-2-Clause
"""Sums in one's complement, against the remainder by 65535 (RFC 1071)."""

from functools import partial

from amaranth.hdl import Cat, Mux, Signal, Value
from harness import Fault, Harness, Inside, Proof

from inceptionn.hdl.parts.checksum import OnesComplementSum, add16, canonical16, fold17
from inceptionn.hdl.parts.width import Width

MODULUS = 0xFFFF
TOTAL_BITS = 29
"""Bits of a sum: 8192 words of ones have no more."""


def functions(h: Harness) -> None:
    a, b = h.anything(16, "a"), h.anything(16, "b")
    total, lone = a + b, h.anything(17, "total")
    h.assume("a sum of two words has 17 bits", lone <= 2 * MODULUS)
    h.claim(
        "a sum above 65535 has that taken off", add16(a, b) == Mux(total > MODULUS, total - MODULUS, total)
    )
    remainder = Mux(lone >= 2 * MODULUS, 0, Mux(lone >= MODULUS, lone - MODULUS, lone))
    h.claim("a folded sum is the remainder", fold17(lone) == remainder)
    h.claim("only the word of ones has another representative", canonical16(a) == Mux(a == MODULUS, 0, a))
    h.cover("the carry ends in the last bit", (a == 0xFFFE) & (b == 2))
    h.cover("twice the word of ones", lone == 2 * MODULUS)


def sum_of(h: Harness, inside: Inside, words: list[Value], bits: list[Value], counts: Value) -> Value:
    """Return the sum of all, a level of pairs each cycle, so that the solver finds those inside in it."""
    level = 0
    while len(words) > 1:
        pairs = zip(words[::2], words[1::2], strict=True)
        sums = [(a + b + (bits.pop(0) if bits else 0))[: len(a) + 1] for a, b in pairs]
        level, counts = level + 1, h.past(counts)
        words, bits = [h.past(one) for one in sums], [h.past(bit) for bit in bits]
        for i, word in enumerate(words):
            h.invariant(
                "each sum inside is that of two below, and of a bit",
                ~counts | (inside[f"stages.sums_{level}"].word_select(i, len(word)) == word),
            )
    return sum(bits, words[0])


def checksum(lanes: int, carries: int, h: Harness) -> None:
    """Compare with the sum of all words of a run of beats, as a number of 29 bits."""
    dut = OnesComplementSum(Width(lanes), carries=carries)
    inside = h.add(dut)
    beat, carry = h.anything(16 * dut.words, "beat"), h.anything(carries, "carry")
    valid, last = h.anything(1, "valid"), h.anything(1, "last")
    h.m.d.comb += [
        dut.beat.eq(beat), dut.valid.eq(valid), dut.last.eq(last),
        *([dut.carry.eq(carry)] if carries else []),
    ]  # fmt: skip
    words = [beat.word_select(i, 16) for i in range(dut.words)]
    of_beat = sum_of(h, inside, words, list(carry), valid)
    # In step with the sum inside, and like it without the beats that a reset has cut off.
    stages = dut.latency - 2
    flags = [Cat(valid, last)]
    for number in range(1, dut.latency + 1):
        flags.append(Signal(2, name=f"flags_{number}"))
        h.m.d.sync += flags[-1].eq(flags[-2])
    counts, ends = flags[stages]
    counted = Mux(counts, of_beat, 0)
    before = Signal(TOTAL_BITS)
    total = (before + counted)[: TOTAL_BITS + 1]
    h.assume("a sum is below 2^29", ~total[-1])
    h.m.d.sync += before.eq(Mux(ends, 0, total))
    h.invariant("the sum inside is that of the words", inside["total"] == before)
    came, whole = flags[-1][1], h.past(total, 2)
    # 2^16 is 1 modulo 65535.
    once = whole[:16] + whole[16:]
    remainder = Mux(once >= MODULUS, once - MODULUS, once)
    h.claim("a sum follows each last beat, and none else", dut.sums.valid == came)
    h.claim(
        "it is the remainder of all words by 65535, or 65535 if that is 0 and they are not",
        ~came | (dut.sums.payload == Mux((remainder == 0) & (whole != 0), MODULUS, remainder)),
    )
    h.claim(
        "a sum stays until the next",
        ~h.running(1) | came | (dut.sums.payload == h.past(dut.sums.payload)),
    )
    h.cover("a sum of two beats of ones", came & (whole == 2 * MODULUS * dut.words))


_CHECKSUM = "parts.checksum"
PROOFS = (
    Proof("one's-complement functions", functions, 1, (
        Fault(_CHECKSUM, "[16:32]", "[:16]"),
        Fault(_CHECKSUM, "low[1:].all() & (low[0] ^ carry)", "low[1:].all() & (low[0] & ~carry)"),
    )),
    *(
        Proof(f"checksum, {lanes} lanes{f', {carries} carries' if carries else ''}",
              partial(checksum, lanes, carries), OnesComplementSum.latency_of(Width(lanes)) + 2, faults,
              refute_depth=OnesComplementSum.latency_of(Width(lanes)) + 3)
        for lanes, carries, faults in (
            (8, 0, (
                Fault(_CHECKSUM, "Mux(last, 0, accumulated)", "accumulated"),
                Fault(_CHECKSUM, "counts=self.valid | self.last", "counts=self.valid"),
            )),
            (16, 0, (Fault(_CHECKSUM, "[Mux(p.adds, word, 0) for word in words]", "words"),)),
            (8, 16, (
                Fault(_CHECKSUM, "list(p.carries[-waiting:])", "list(p.carries[:waiting])"),
                Fault(_CHECKSUM, "self.valid & self.carry[i]", "self.carry[i]"),
            )),
        )
    ),
)  # fmt: skip
