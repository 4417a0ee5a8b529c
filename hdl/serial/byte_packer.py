# SPDX-License-Identifier: BSD-2-Clause
"""Packs pieces of 0 to 4 bytes into words: the data of a block, one word a cycle."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..parts.rotation import rotate_left_bytes

WORD_BYTES = 4


class Piece(data.Struct):
    """Bytes that follow the piece before."""

    data: 32  # zero above its bytes
    size: range(WORD_BYTES + 1)  # bytes
    ends: 1  # no piece, but the run's end: what is left is emitted


class PackedWord(data.Struct):
    """A word of the result; bytes that no piece fills are zero."""

    data: 32
    begins: 1  # bytes below the run's place belong to somebody else


class BytePacker(wiring.Component):
    """Joins a run of pieces without gaps, from byte 0 or 2 of the first word on.

    ::

        pieces ─► rotation to the free place ─┬─► word, where it is full
                                              └─► residue of 0 to 3 bytes ─┐
                              (joins the next piece)

    One piece a cycle. A word follows the piece that fills it, or ``ends``, after :attr:`LATENCY` cycles. Only
    the number of bytes left, 2 bits, is a loop through an adder; the residue is one multiplexer.
    """

    LATENCY = 2

    start: In(1)  #: A run begins with the next piece; what is left of another is dropped.
    place: In(1)  #: With ``start``: from byte 2 of the first word on, not byte 0.
    pieces: In(stream.Signature(Piece, always_ready=True))  #: From the cycle after ``start`` on.
    words: Out(stream.Signature(PackedWord, always_ready=True))  #: The run, in words.

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        piece = self.pieces.payload
        left = Signal(range(WORD_BYTES))  # bytes in the residue
        size = Signal.like(piece.size)
        total = Signal(3)
        present = self.pieces.valid & ~piece.ends
        m.d.comb += [size.eq(Mux(present, piece.size, 0)), total.eq(left + size)]
        m.d.sync += left.eq(Mux(self.start, self.place << 1, total[:2]))

        # Stage 1: the piece at its place. What does not fit stands at the bottom, where the next word begins.
        rotated = Signal(32, reset_less=True)
        held = Signal(WORD_BYTES - 1, reset_less=True)  # bytes of the residue
        full = Signal()
        started = Signal()
        m.d.sync += [
            rotated.eq(rotate_left_bytes(Mux(present, piece.data, 0), left, 1)),
            held.eq(Cat(left > place for place in range(WORD_BYTES - 1))),
            full.eq(total[2] | (self.pieces.valid & piece.ends & (left != 0))),
            started.eq(self.start),
        ]

        # Stage 2: the word, and the new residue. Without a full word nothing stands at the bottom.
        residue = Signal(8 * (WORD_BYTES - 1), reset_less=True)
        below = Cat(held[place].replicate(8) for place in range(WORD_BYTES - 1))
        current = Signal(32)
        begins = Signal()
        m.d.comb += current.eq(Cat((residue & below) | (rotated[:24] & ~below), rotated[24:]))
        with m.If(started):
            m.d.sync += [residue.eq(0), begins.eq(1)]
        with m.Elif(full):
            m.d.sync += [residue.eq(rotated[:24] & below), begins.eq(0)]
        with m.Else():
            m.d.sync += residue.eq(current[:24])
        m.d.sync += [
            self.words.valid.eq(full & ~started),
            self.words.payload.data.eq(current),
            self.words.payload.begins.eq(begins),
        ]
        self.probes = {"left": left, "residue": residue, "begins": begins}
        return m
