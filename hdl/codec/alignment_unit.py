# SPDX-License-Identifier: BSD-2-Clause
"""Alignment Unit: packs aligned vectors into whole beats (paper, Fig. 9)."""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..parts.pipeline import Pipeline
from ..parts.rotation import rotate_in_stages, rotate_left_bytes
from ..parts.width import BURST, Width


def block_vector(width: Width = BURST) -> data.StructLayout:
    """Return the layout of a block's part of one burst: up to a whole beat."""
    return data.StructLayout(
        {
            "last": 1,  # of its block
            "size": range(width.bytes + 1),
            "data": width.bits,  # zero above `size`
        }
    )


class AlignmentUnit(wiring.Component):
    """Packs a block's vectors back to back into beats, one vector per cycle.

    A vector has 0 to 32 bytes and a beat 32, with 16 lanes 0 to 64 and 64. A beat leaves :attr:`latency`
    cycles after the vector that completes it: 5 with 8 lanes, 6 with 16.

    The only feedback is the fill level of 5 or 6 bits. A vector is rotated by it, one base-4 digit per stage,
    and split at it: one part completes the current beat, the other begins the next.

    A block's last vector may complete one beat and begin another, which follows one cycle later. With 8 lanes
    **the cycle after** ``last`` must therefore **be idle**. With 16 the next block may follow at once. Its
    beats are then one cycle late until one of its vectors completes none. That happens before the block can
    end in the same way, since no block has more beats than vectors.
    """

    def __init__(self, width: Width = BURST):
        self.width = width
        self.latency = self.latency_of(self.width)
        super().__init__(
            {
                #: ``data`` is zero also while ``valid`` is low.
                "vectors": In(stream.Signature(block_vector(width), always_ready=True)),
                #: Packed bytes, zero after the block's end.
                "beats": Out(stream.Signature(self.width.bits, always_ready=True)),
                #: High for one cycle when the block is complete: with its last beat, or alone if no byte was
                #: left for one. At most ``latency + 1`` cycles after ``last``.
                "done": Out(1),
            }
        )

    @staticmethod
    def latency_of(width: Width) -> int:
        """Count the cycles from a vector to the beat that it completes."""
        # Level, base-4 digits of a rotation (the split shares the stage of a single bit), beat.
        return 3 + width.place_bits // 2

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        bits = self.width.place_bits
        valid, vector = self.vectors.valid, self.vectors.payload

        # Stage 1: fill level. `over`: the last vector has completed a beat and begun one more.
        # `valid` is applied after the adder, which alone takes most of the cycle.
        level = Signal(bits)
        total = Signal(bits + 1)
        over = Signal()
        full = Signal()
        rest = Signal()
        m.d.comb += [total.eq(level + vector.size), full.eq(total[bits]), rest.eq(total[:bits].any())]
        ending = valid & vector.last
        with m.If(valid):
            m.d.sync += level.eq(Mux(vector.last, 0, total[:bits]))
        emits = valid & (full | (vector.last & rest))
        m.d.sync += over.eq(ending & full & rest)
        p = Pipeline(m, control={"emit", "ending", "late", "done", "over", "moves"})
        # Only accepted vectors and delayed ends move the current beat: the rotation has no reset.
        p.let(moves=valid if self.width.payload_overlaps else valid | over)
        p.stage(
            rotation=level,
            rotated=vector.data,
            emit=emits if self.width.payload_overlaps else over | emits,
            ending=ending,
            late=Const(0) if self.width.payload_overlaps else over,
        )
        p.let(
            over=over, done=(p.ending & ~over) | p.late
        )  # not before the register: that comes after an adder

        # Rotate by the level, then split at it. A last digit of one bit shares the stage of the split.
        rotate_in_stages(p, 1, bits // 2)
        rotated = rotate_left_bytes(p.rotated, p.rest, self.width.words)
        placed = [(p.current[i], rotated.word_select(i, 8)) for i in range(self.width.bytes)]
        p.stage(
            current=Cat(Mux(current, byte, 0) for current, byte in placed),
            following=Cat(Mux(current, 0, byte) for current, byte in placed),
        )

        # The current beat. It is zero whenever a block begins: every block's end emits.
        pending = Signal(self.width.bits)
        self.probes = {"level": level, "over": over, "pending": pending, "stages": p}
        emit, done, moves = p.emit, p.done, p.moves
        if self.width.payload_overlaps:
            # `owed`: one more end arrived than could leave. The current beat is whole and leaves now; what
            # arrives begins a beat and waits in its place.
            owed = Signal()
            owed_emit = Signal()
            owed_done = Signal()
            self.probes |= {"owed": owed, "owed_emit": owed_emit, "owed_done": owed_done}
            over = p.over
            with m.If(owed | moves):
                kept = Mux(owed, 0, pending)
                m.d.sync += pending.eq(Mux(emit & ~owed, p.following, kept | p.current))
            m.d.sync += [
                self.beats.payload.eq(pending | Mux(owed, 0, p.current)),
                self.beats.valid.eq(Mux(owed, owed_emit, emit)),
                self.done.eq(Mux(owed, owed_done, done)),
                owed.eq(Mux(owed, emit | done, over)),
                owed_emit.eq(emit | ~owed),
                owed_done.eq(done | ~owed),
            ]
            return m
        with m.If(moves):
            m.d.sync += pending.eq(Mux(emit, p.following, pending | p.current))
        m.d.sync += [
            self.beats.payload.eq(pending | p.current),
            self.beats.valid.eq(emit),
            self.done.eq(done),
        ]
        return m
