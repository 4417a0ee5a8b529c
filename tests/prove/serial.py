# SPDX-License-Identifier: BSD-2-Clause
"""Parts of engines of one lane: the packer of bytes, against a buffer of up to 7 bytes."""

from amaranth.hdl import C, Cat, Mux, Signal
from harness import Fault, Harness, Proof
from packing import Delayed, byte_of

from inceptionn.hdl.serial.byte_packer import WORD_BYTES, BytePacker


def byte_packer(h: Harness) -> None:
    """Any runs of any pieces: each byte leaves once, in its place, and what no piece fills is zero."""
    dut = BytePacker()
    inside = h.add(dut)
    m, piece = h.m, dut.pieces.payload
    start, place, valid, ends = (h.anything(1, name) for name in ("start", "place", "valid", "ends"))
    size, data = h.anything(range(WORD_BYTES + 1), "size"), h.anything(32, "data")
    m.d.comb += [
        dut.start.eq(start), dut.place.eq(place), dut.pieces.valid.eq(valid),
        piece.data.eq(data), piece.size.eq(size), piece.ends.eq(ends),
    ]  # fmt: skip
    runs = Signal()
    m.d.sync += runs.eq(start | (runs & ~(valid & ends)))
    h.assume("pieces come in a run", ~valid | start | runs)
    h.assume("a piece is zero above its size", Cat(
        (size > i) | (data.word_select(i, 8) == 0) for i in range(WORD_BYTES)
    ).all())  # fmt: skip

    # `left` bytes of the current word are taken; those that pieces gave are in `kept`.
    left, kept, first = Signal(range(WORD_BYTES)), Signal(8 * (WORD_BYTES - 1)), Signal()
    takes, last = valid & ~ends, valid & ends
    joined, total, emits = Signal(56), Signal(4), Signal()
    m.d.comb += [
        joined.eq(kept | Mux(takes, data << (left << 3), 0)),
        total.eq(left + Mux(takes, size, 0)),
        emits.eq(~start & ((total >= WORD_BYTES) | (last & (left != 0)))),
    ]
    m.d.sync += [
        left.eq(Mux(start, place << 1, total[:2])),
        kept.eq(Mux(start | last, 0, Mux(emits, joined[32:], joined[:24]))),
        first.eq(start | (first & ~emits)),
    ]
    was = Delayed(h, {
        "alive": C(1, 1), "runs": runs, "emits": emits, "word": joined[:32], "first": first, "kept": kept,
    }, dut.LATENCY)  # fmt: skip

    at = h.any_constant(range(WORD_BYTES), "at")
    words, cycles = dut.words, dut.LATENCY
    h.claim("a word leaves two cycles after what fills it, or its run's end, and none besides",
            words.valid == (was("alive", cycles) & was("emits", cycles)))  # fmt: skip
    h.claim(
        "any byte of it is the piece's that belongs there, or zero",
        ~words.valid | (byte_of(words.payload.data, at) == byte_of(was("word", cycles), at)),
    )
    h.claim(
        "the first word of a run says so, and no other",
        ~words.valid | (words.payload.begins == was("first", cycles)),
    )
    h.invariant("the level is the bytes in the current word", inside["left"] == left)
    h.invariant("what is kept is zero above the level", ~runs | ((kept >> (left << 3)) == 0))
    follows = was("alive", 1) & was("runs", 1)
    h.invariant("a cycle later the residue is what is kept", ~follows | (inside["residue"] == was("kept", 1)))
    h.invariant("and says whether a word has left", ~follows | (inside["begins"] == was("first", 1)))

    h.cover("a word of two pieces follows one of three", words.valid & was("emits", 1) & (size == 3))
    h.cover("an end without a rest", last & (left == 0) & ~first)


_PACKER = "serial.byte_packer"
PROOFS = (
    Proof("byte_packer", byte_packer, 3, (
        Fault(_PACKER, "(left != 0)", "1"),
        Fault(_PACKER, "rotated[:24] & below)", "current[:24])"),
        Fault(_PACKER, "Cat(left > place for", "Cat(left >= place for"),
        Fault(_PACKER, "self.place << 1", "self.place"),
    ), cover_depth=8, refute_depth=8),
)  # fmt: skip
