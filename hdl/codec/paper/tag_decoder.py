# SPDX-License-Identifier: BSD-2-Clause
"""From the tag planes of successive blocks to a stream of groups with their places in the data."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from inceptionn.wire import GROUP_LANES, Tag

from ...parts.beat import Beat
from ...parts.delay import delayed
from ...parts.memory import LutRam
from ...parts.queue import PushQueue

BEAT_BITS = 9
"""Beats are numbered modulo 512: a block's last group may lie 288 beats after the last one received."""
WORDS = 16
"""Words in a beat. A word is the tags of a cycle's lanes: one group's, with 16 lanes two groups'."""


def position_bits(lanes: int = GROUP_LANES) -> int:
    """Bits of a position: number of the beat, and byte in it."""
    return BEAT_BITS + Beat(lanes).place_bits


def block_layout(lanes: int = GROUP_LANES) -> data.StructLayout:
    """What is known of a block at its first beat."""
    return data.StructLayout(
        {
            # Words in the block, less one.
            "more_groups": 12 - exact_log2(lanes),
            # Lanes of its last word, less one.
            "more_lanes": exact_log2(lanes),
            "base": 8,
            # Position of the byte before the block's data.
            "origin": position_bits(lanes),
            # The announced lane count is out of range.
            "unusable": 1,
        }
    )


def group_layout(lanes: int = GROUP_LANES) -> data.StructLayout:
    """A group, or two, ready to be cut out of the data."""
    return data.StructLayout(
        {
            "tags": 2 * lanes,
            # Positions of the byte before the group's data, and of their last byte.
            "start": position_bits(lanes),
            "end": position_bits(lanes),
            # The last of its block, and the lanes in it, less one.
            "last": 1,
            "more_lanes": exact_log2(lanes),
            "base": 8,
            # An absent lane has a tag, or the block is unusable.
            "fault": 1,
        }
    )


def vector_bytes(tag: Value) -> Value:
    """Size of a lane's vector in bytes (3 bits): 0, 1, 2, 4 for tags 00, 01, 10, 11."""
    return Cat(tag == Tag.BITS8, tag == Tag.BITS16, tag == Tag.RAW)


class TagDecoder(wiring.Component):
    """Finds every group's place in the data from the tags alone (the paper's Tag Decoder, Fig. 10).

    Takes the beats of successive tag planes, one block after the other, and offers one group per cycle, at
    best :attr:`latency` cycles after the beat that holds its tag word (10). With 16 lanes (11 cycles), two
    groups are one in all that follows, their tag words being one word; where a block has an odd number of
    groups, the last one is joined by lanes that are absent. The writer may not wait, but must keep ``stored``
    below ``DEPTH - 1``.

    Since all tags come first, the only loop is the sum of the sizes; everything else is feed-forward.

    If a block ends inside its tag plane (``w_ends`` at a beat that is not the plane's last), the missing tag
    words are arbitrary, but the number of groups is not: the block is malformed, and its end position, which
    lies outside of it, shows it unless the sum happens to fit, so the writer must remember the fact.

    Parameters
    ----------
    lanes : :class:`int`
        8: beats of 32 bytes, one group per cycle. 16: 64 bytes, two groups.

    Members
    -------
    w_data : :py:`In(32 * lanes)`
        A beat that holds tag words.
    w_block : :py:`In(block_layout(lanes))`
        The block, read with the first beat of its tag plane.
    w_ends : :py:`In(1)`
        The block ends with this beat.
    w_valid : :py:`In(1)`
    stored : :py:`Out(5)`
        Beats written and not yet in use, one cycle late.
    group : :py:`Out(group_layout(lanes))`
    group_valid : :py:`Out(1)`
    group_ready : :py:`In(1)`
    """

    DEPTH = 32
    GROUPS = 32

    def __init__(self, *, lanes: int = GROUP_LANES):
        self.lanes = lanes
        self.width = Beat.of_groups(lanes)
        self.latency = self.latency_of(self.width)
        super().__init__(
            {
                "w_data": In(self.width.bits),
                "w_block": In(block_layout(lanes)),
                "w_ends": In(1),
                "w_valid": In(1),
                "stored": Out(range(self.DEPTH)),
                "group": Out(group_layout(lanes)),
                "group_valid": Out(1),
                "group_ready": In(1),
            }
        )

    @staticmethod
    def latency_of(width: Beat) -> int:
        """Cycles from a beat to the group of its first word, at best."""
        return 7 + exact_log2(width.lanes)

    def elaborate(self, platform: Any) -> Module:
        # A small sequencer names one tag word per cycle by beat and index; the word itself is fetched
        # through free-running registers. Only room in the queue at the end can hold it up.
        m = Module()
        sync = m.d.sync

        layout = block_layout(self.lanes)
        block_bits = layout.size
        join = self.width.groups > 1  # a stage more for the sum over two groups
        m.submodules.beats = beats = LutRam(self.width.bits, self.DEPTH)
        m.submodules.blocks = blocks = LutRam(block_bits + 2, self.DEPTH)
        free = Signal(range(self.DEPTH))
        alone = self.w_block.more_groups == 0
        for memory, item in ((beats, self.w_data), (blocks, Cat(self.w_block, self.w_ends, alone))):
            # The slot at `free` is unused by contract: write it always, count it if valid.
            m.d.comb += [memory.write.eq(1), memory.write_address.eq(free), memory.write_data.eq(item)]
        with m.If(self.w_valid):
            sync += free.eq(free + 1)

        # A word sent takes six cycles to the queue, or seven, and `room` is three cycles old.
        out = group_layout(self.lanes)
        m.submodules.queue = queue = PushQueue(out, self.GROUPS, slack=10 + join, elastic=True)
        room = delayed(m, queue.room, 1, name="room", reset=True)

        # The sequencer.
        next_beat = Signal(range(self.DEPTH))
        after_next = Signal(range(self.DEPTH), init=1)
        available = Signal()
        m.d.comb += blocks.read_address.eq(next_beat)
        next_block = data.View(layout, blocks.read_data[:block_bits])

        active = Signal()
        beat = Signal(range(self.DEPTH))
        word = Signal(range(WORDS))
        more = Signal(len(self.w_block.more_groups))
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
            # A plane cut short repeats its last beat until all its groups are counted.
            leave.eq(emit & (last | wraps)),
            take.eq((~active | leave) & available),
            some.eq(free != next_beat),
        ]
        # `take` is timing-critical, so both outcomes are ready before it chooses.
        sync += [
            self.stored.eq(free - next_beat),
            active.eq(take | (active & ~leave)),
            available.eq(self.w_valid | Mux(take, some & (free != after_next), some)),
        ]
        with m.If(take):
            sync += [next_beat.eq(after_next), after_next.eq(after_next + 1)]
        with m.If(emit):
            sync += [
                word.eq(word + 1),
                wraps.eq((word == WORDS - 2) & ~ends),
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

        # 16:1 choice of the tag word, two bits of the index per stage, after a register for the RAM alone.
        m.d.comb += beats.read_address.eq(beat)
        fetched = delayed(m, beats.read_data, 1, name="fetched")
        high_index = delayed(m, word[2:], 1, name="high_index")
        four_words = Signal(self.width.bits // 4, reset_less=True)
        tags_3 = Signal(2 * self.lanes, reset_less=True)
        low_index = delayed(m, word[:2], 2, name="low_index")
        with m.Switch(high_index):
            for index in range(4):
                with m.Case(index):
                    sync += four_words.eq(fetched.word_select(index, len(four_words)))
        with m.Switch(low_index):
            for index in range(4):
                with m.Case(index):
                    sync += tags_3.eq(four_words.word_select(index, len(tags_3)))
        if join:
            # After the tag word of a last group that is alone, data begin.
            with m.If(delayed(m, last & ~block.more_lanes[-1], 2, name="alone")):
                sync += tags_3[2 * GROUP_LANES :].eq(0)

        # Sizes, their sum, and where that takes the position.
        sizes = [vector_bytes(tags_3.word_select(lane, 2)) for lane in range(self.lanes)]
        pairs = [
            delayed(m, (sizes[2 * i] + sizes[2 * i + 1])[:4], 1, name=f"pair_{i}")
            for i in range(self.lanes // 2)
        ]
        totals = []
        for i in range(0, len(pairs), 4):
            total = ((pairs[i] + pairs[i + 1]) + (pairs[i + 2] + pairs[i + 3]))[:6]
            totals.append(delayed(m, total, 1, name=f"total_{i}" if join else "total"))
        total = delayed(m, totals[0] + totals[1], 1, name="total") if join else totals[0]
        valid_5 = delayed(m, emit, 5 + join, name="valid", reset=True)
        first_5 = delayed(m, first, 5 + join, name="first")
        origin_5 = delayed(m, block.origin, 5 + join, name="origin")
        start = Signal(len(self.group.start), reset_less=True)
        end = Signal(len(self.group.end), reset_less=True)
        with m.If(valid_5):
            before = Mux(first_5, origin_5, end)
            sync += [start.eq(before), end.eq(before + total)]

        # Tags of lanes that the block does not have.
        last_3 = delayed(m, last, 3, name="last")
        more_lanes_3 = delayed(m, block.more_lanes, 3, name="more_lanes")
        unusable_3 = delayed(m, block.unusable, 3, name="unusable")
        absent = Cat(last_3 & (more_lanes_3 < lane) for lane in range(self.lanes))
        tagged = Cat(tags_3.word_select(lane, 2).any() for lane in range(self.lanes))
        if join:
            found = delayed(m, Cat(unusable_3, absent & tagged), 1, name="found").any()
        else:
            found = unusable_3 | (absent & tagged).any()
        fault_4 = delayed(m, found, 1, name="fault")

        m.d.comb += [
            queue.i.valid.eq(delayed(m, valid_5, 1, name="valid_6", reset=True)),
            queue.i.payload.tags.eq(delayed(m, tags_3, 3 + join, name="tags")),
            queue.i.payload.start.eq(start),
            queue.i.payload.end.eq(end),
            queue.i.payload.last.eq(delayed(m, last_3, 3 + join, name="last_6")),
            queue.i.payload.more_lanes.eq(delayed(m, more_lanes_3, 3 + join, name="more_lanes_6")),
            queue.i.payload.base.eq(delayed(m, block.base, 6 + join, name="base")),
            queue.i.payload.fault.eq(delayed(m, fault_4, 2, name="fault_6")),
            self.group.eq(queue.o.payload),
            self.group_valid.eq(queue.o.valid),
            queue.o.ready.eq(self.group_ready),
        ]
        return m
