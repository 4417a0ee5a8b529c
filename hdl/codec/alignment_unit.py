# SPDX-License-Identifier: BSD-2-Clause
"""Alignment Unit: packs aligned vectors into whole beats (paper, Fig. 9)."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from inceptionn.wire import GROUP_LANES

from ..parts.beat import Beat
from ..parts.pipeline import Pipeline


def rotate_left_bytes(value: Any, digit: Any, step: int) -> Any:
    """``value`` rotated up by ``digit * step`` bytes: one multiplexer of 2**len(digit) inputs."""
    result = value
    for position in range(len(digit)):
        result = Mux(digit[position], result.rotate_left(8 * step << position), result)
    return result


class AlignmentUnit(wiring.Component):
    """Packs vectors of 0 to 32 bytes, or 64, back to back into beats of as many bytes, block by block.

    The only loop that carries an address is the fill level of 5 or 6 bits; the vector is rotated by it, one
    base-4 digit per stage, split at the level into the part that completes the current beat and
    the part that begins the next, and ORed into the beat. From the vector that completes
    a beat to the beat it takes :attr:`latency` cycles: 5 for 8 lanes, 6 for 16.

    A block's last vector may complete one beat and begin another, which follows one cycle later. With 8 lanes
    **the cycle after** ``last`` must therefore **be idle**. With 16 the next block may follow at once: its
    beats are then one cycle late until one of its vectors completes none, which happens before it can end
    like that itself, since no block has more beats than vectors.

    Parameters
    ----------
    lanes : :class:`int`
        Beats of 4 bytes per lane: 8 or 16.

    Members
    -------
    valid : :py:`In(1)`
    last : :py:`In(1)`
        The block's last vector; only with ``valid``.
    size : :py:`In(range(4 * lanes + 1))`
        Bytes of ``vector``.
    vector : :py:`In(32 * lanes)`
        Zero above ``size``, and without ``valid``.
    beat : :py:`Out(32 * lanes)`
        Packed bytes, zero after the block's end.
    beat_valid : :py:`Out(1)`
        High for one cycle per beat.
    done : :py:`Out(1)`
        High for one cycle when the block is complete, with its last beat (or alone, where no byte was
        left for one), one cycle after ``latency`` at the latest.
    """

    def __init__(self, *, lanes: int = GROUP_LANES):
        self.lanes = lanes
        self.width = Beat.of_groups(lanes)
        self.latency = self.latency_of(self.width)
        super().__init__(
            {
                "valid": In(1),
                "last": In(1),
                "size": In(range(self.width.bytes + 1)),
                "vector": In(self.width.bits),
                "beat": Out(self.width.bits),
                "beat_valid": Out(1),
                "done": Out(1),
            }
        )

    @staticmethod
    def latency_of(width: Beat) -> int:
        """Cycles from a vector to the beat that it completes."""
        # Level, base-4 digits of a rotation (the split shares the stage of a single bit), beat.
        return 3 + width.place_bits // 2

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        bits = self.width.place_bits

        # Stage 1: fill level. `over`: the last vector has completed a beat and begun one more.
        # `valid` is applied after the adder, which alone takes most of the cycle.
        level = Signal(bits)
        total = Signal(bits + 1)
        over = Signal()
        full = Signal()
        rest = Signal()
        m.d.comb += [total.eq(level + self.size), full.eq(total[bits]), rest.eq(total[:bits].any())]
        ending = self.valid & self.last
        with m.If(self.valid):
            m.d.sync += level.eq(Mux(self.last, 0, total[:bits]))
        emits, ends = self.valid & (full | (self.last & rest)), ending & ~(full & rest)
        m.d.sync += over.eq(ending & full & rest)
        p = Pipeline(m, control={"emit", "done", "over", "moves"})
        # Only accepted vectors, and ends that come late, move the current beat: the rotation has no reset.
        p.let(moves=self.valid if self.width.payload_overlaps else self.valid | over)
        p.stage(
            rotation=level,
            rotated=self.vector,
            emit=emits if self.width.payload_overlaps else over | emits,
            done=ends if self.width.payload_overlaps else over | ends,
        )
        p.let(over=over)

        # Rotate by the level, then split at it. A last digit of one bit shares the stage of the split.
        for digits in range(0, bits - 1, 2):
            if digits + 2 >= bits - 1:
                p.let(current=Cat(p.rotation <= i for i in range(self.width.bytes)))
                p.let(last_digit=p.rotation[digits + 2 :])
            p.stage(rotated=rotate_left_bytes(p.rotated, p.rotation[digits : digits + 2], 1 << digits))
        rotated = rotate_left_bytes(p.rotated, p.last_digit, self.width.words)
        placed = [(p.current[i], rotated.word_select(i, 8)) for i in range(self.width.bytes)]
        p.stage(
            current=Cat(Mux(current, byte, 0) for current, byte in placed),
            following=Cat(Mux(current, 0, byte) for current, byte in placed),
        )

        # The current beat. It is zero whenever a block begins: every block's end emits.
        pending = Signal(self.width.bits)
        emit, done, moves = p.emit, p.done, p.moves
        if self.width.payload_overlaps:
            # `owed`: one more end arrived than could leave. The current beat is whole and leaves now; what
            # arrives begins a beat and waits in its place.
            owed = Signal()
            owed_emit = Signal()
            owed_done = Signal()
            over = p.over
            with m.If(owed | moves):
                kept = Mux(owed, 0, pending)
                m.d.sync += pending.eq(Mux(emit & ~owed, p.following, kept | p.current))
            m.d.sync += [
                self.beat.eq(pending | Mux(owed, 0, p.current)),
                self.beat_valid.eq(Mux(owed, owed_emit, emit)),
                self.done.eq(Mux(owed, owed_done, done)),
                owed.eq(Mux(owed, emit | done, over)),
                owed_emit.eq(emit | ~owed),
                owed_done.eq(done | ~owed),
            ]
            return m
        with m.If(moves):
            m.d.sync += pending.eq(Mux(emit, p.following, pending | p.current))
        m.d.sync += [
            self.beat.eq(pending | p.current),
            self.beat_valid.eq(emit),
            self.done.eq(done),
        ]
        return m
