# SPDX-License-Identifier: BSD-2-Clause
"""From the tables at the heads of successive blocks to a stream of groups with their places in the data."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from ..parts.delay import delayed
from ..parts.memory import LutRam
from ..parts.pipeline import Pipeline
from ..parts.queue import ElasticQueue
from ..parts.width import BURST, Width

BEAT_BITS = 9
"""Beats are numbered modulo 512: a block's last group may lie 288 beats after the last one received."""


def position_bits(width: Width = BURST) -> int:
    """Count the bits of a position: number of the beat, and byte in it."""
    return BEAT_BITS + width.place_bits


def block_layout(width: Width = BURST) -> data.StructLayout:
    """Return the layout of the facts about a block that its first beat gives."""
    return data.StructLayout(
        {
            # Groups in the block, or pairs of groups, less one.
            "more_groups": 12 - exact_log2(width.lanes),
            # Lanes of its last group or pair, less one; of bf16 lanes pairs of them.
            "more_lanes": exact_log2(width.lanes),
            # The shim's byte 3: B, E0, or for bf16 lanes E0 + 128.
            "base": 8,
            # Position of the byte before the block's data.
            "origin": position_bits(width),
            # The announced lane count is out of range.
            "unusable": 1,
        }
    )


def table_beat(width: Width = BURST) -> data.StructLayout:
    """Return the layout of a beat that holds marks."""
    return data.StructLayout(
        {
            "data": width.bits,
            # Means something with the first beat of the block's table alone.
            "block": block_layout(width),
            # The block ends with this beat.
            "ends": 1,
        }
    )


def group_layout(width: Width, marks: str, mark_bits: int) -> data.StructLayout:
    """Return the layout of a group, or two, ready to be cut out of the data."""
    return data.StructLayout(
        {
            marks: mark_bits,
            # Positions of the byte before the group's data, and of their last byte.
            "start": position_bits(width),
            "end": position_bits(width),
            # The last of its block, and the lanes in it, less one.
            "last": 1,
            "more_lanes": exact_log2(width.lanes),
            "base": 8,
            # The marks are impossible, or the block is unusable.
            "fault": 1,
        }
    )


def quarter(m: Module, value: Value, digit: Value, name: str) -> Signal:
    """Register the quarter ``digit`` of ``value``."""
    chosen = Signal(len(value) // 4, name=name, reset_less=True)
    with m.Switch(digit):
        for index in range(4):
            with m.Case(index):
                m.d.sync += chosen.eq(value.word_select(index, len(chosen)))
    return chosen


class TableDecoder(wiring.Component):
    """Finds every group's place in the data from the table at the head of its block alone.

    The base of the paper's Tag Decoder and of the Code Decoder, which read a group's *marks*: its tag word or
    its code. It takes the beats of successive tables, block by block, and offers one group per cycle.
    Latency: at best :attr:`latency` cycles from the beat that holds the marks, 10 with 8 lanes and 11 with
    16. With 16 lanes, "group" means two groups here; absent lanes complete the last one of an odd number.
    The writer must keep ``stored`` below ``DEPTH - 1``.

    Since all marks come first, the only feedback is the sum of the sizes.

    If a block ends inside its table (``ends`` at a beat that is not the table's last), the missing marks are
    arbitrary, but the number of groups is the announced one. The block is malformed. Its end position shows
    that unless the sum happens to fit, so the writer must remember it.
    """

    DEPTH = 32
    GROUPS = 32
    MARKS: str
    """Name of a group's marks."""
    WORDS: int
    """Groups' marks, or with 16 lanes pairs of them, in a beat."""

    def __init__(self, width: Width = BURST):
        self.width = width
        self.latency = self.latency_of(self.width)
        self.mark_bits = self.width.bits // self.WORDS + width.bf16
        super().__init__(
            {
                #: Beats of the tables, block by block.
                "beats": In(stream.Signature(table_beat(width), always_ready=True)),
                "stored": Out(range(self.DEPTH)),  #: Beats written and not yet in use, one cycle late.
                #: Each group's marks and place in the data, in order.
                "groups": Out(stream.Signature(group_layout(width, self.MARKS, self.mark_bits))),
            }
        )

    @staticmethod
    def latency_of(width: Width) -> int:
        """Count the cycles from a beat to the group of its first marks, at best."""
        return 7 + exact_log2(width.lanes)

    def _measure(self, m: Module, p: Pipeline) -> None:
        """Take the marks out of their beat: ``marks``, their bytes ``total``, and ``fault``.

        Stage 0 of ``p`` has the ``beat`` out of its memory, the marks' ``index`` in it, ``last``,
        ``more_lanes`` and ``unusable``. The total is ready at stage 5, with 16 lanes at stage 6.
        """
        raise NotImplementedError

    def elaborate(self, platform: Any) -> Module:
        # A small sequencer names one group's marks per cycle by beat and index; the marks are fetched
        # through free-running registers. Only room in the queue at the end can hold it up.
        m = Module()
        sync = m.d.sync

        layout = block_layout(self.width)
        block_bits = layout.size
        join = self.width.groups > 1  # a stage more for the sum over two groups
        m.submodules.beats = beats = LutRam(self.width.bits, self.DEPTH)
        m.submodules.blocks = blocks = LutRam(block_bits + 2, self.DEPTH)
        free = Signal(range(self.DEPTH))
        source = self.beats.payload
        alone = source.block.more_groups == 0
        for memory, item in ((beats, source.data), (blocks, Cat(source.block, source.ends, alone))):
            # The slot at `free` is unused by contract: write it always, count it if valid.
            m.d.comb += [memory.write.eq(1), memory.write_address.eq(free), memory.write_data.eq(item)]
        with m.If(self.beats.valid):
            sync += free.eq(free + 1)

        # A group sent takes six cycles to the queue, or seven, and `room` is three cycles old.
        out = self.groups.payload
        m.submodules.queue = queue = ElasticQueue(out.shape(), self.GROUPS, slack=10 + join)
        wiring.connect(m, queue.o, wiring.flipped(self.groups))
        room = delayed(m, queue.room, 1, name="room", reset=True)

        p = self._sequence(m, free, room, blocks)
        m.d.comb += beats.read_address.eq(p.beat_at)
        p.let(beat=beats.read_data)
        self._measure(m, p)

        # Where a group's bytes take the position.
        start = Signal(len(out.start), reset_less=True)
        end = Signal(len(out.end), reset_less=True)
        valid, before, total = p.valid, Mux(p.first, p.origin, end), p.total
        with m.If(valid):
            sync += [start.eq(before), end.eq(before + total)]
        p.stage()
        m.d.comb += [
            queue.i.valid.eq(p.valid),
            queue.i.payload[self.MARKS].eq(p.marks),
            queue.i.payload.start.eq(start),
            queue.i.payload.end.eq(end),
            queue.i.payload.last.eq(p.last),
            queue.i.payload.more_lanes.eq(p.more_lanes),
            queue.i.payload.base.eq(p.base),
            queue.i.payload.fault.eq(p.fault),
        ]
        return m

    def _sequence(self, m: Module, free: Signal, room: Value, blocks: LutRam) -> Pipeline:
        """Name one group's marks per cycle with ``room``, by beat and index, with their block's facts."""
        sync = m.d.sync
        layout = block_layout(self.width)
        next_beat = Signal(range(self.DEPTH))
        after_next = Signal(range(self.DEPTH), init=1)
        available = Signal()
        m.d.comb += blocks.read_address.eq(next_beat)
        next_block = data.View(layout, blocks.read_data[: layout.size])

        active = Signal()
        beat = Signal(range(self.DEPTH))
        word = Signal(range(self.WORDS))
        more = Signal(len(next_block.more_groups))
        last = Signal()
        first = Signal()
        was_last = Signal(init=1)
        wraps = Signal()
        ends = Signal()
        block = Signal(layout, reset_less=True)
        emit = Signal()
        leave = Signal()
        take = Signal()
        some = Signal()
        m.d.comb += [
            emit.eq(active & room),
            # A table cut short repeats its last beat until all its groups are counted.
            leave.eq(emit & (last | wraps)),
            take.eq((~active | leave) & available),
            some.eq(free != next_beat),
        ]
        # `take` is timing-critical, so both outcomes are ready before it chooses.
        sync += [
            self.stored.eq(free - next_beat),
            active.eq(take | (active & ~leave)),
            available.eq(self.beats.valid | Mux(take, some & (free != after_next), some)),
        ]
        with m.If(take):
            sync += [next_beat.eq(after_next), after_next.eq(after_next + 1)]
        with m.If(emit):
            sync += [
                word.eq(word + 1),
                wraps.eq((word == self.WORDS - 2) & ~ends),
                more.eq(more - 1),
                last.eq(more == 1),
                first.eq(0),
                was_last.eq(last),
            ]
        with m.If(take):
            sync += [beat.eq(next_beat), word.eq(0), wraps.eq(0), ends.eq(blocks.read_data[-2])]
            with m.If(Mux(active, last, was_last)):
                sync += [
                    block.eq(next_block),
                    more.eq(next_block.more_groups),
                    last.eq(blocks.read_data[-1]),
                    first.eq(1),
                ]
        p = Pipeline(m, control={"valid"})
        p.let(valid=emit, beat_at=beat, first=first, index=word, last=last)
        p.let(origin=block.origin, more_lanes=block.more_lanes, base=block.base, unusable=block.unusable)
        return p
