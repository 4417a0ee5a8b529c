# SPDX-License-Identifier: BSD-2-Clause
"""From the tag planes of successive blocks to a stream of groups with their places in the data."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from inceptionn.hdl.delay import delayed
from inceptionn.hdl.memory import LutRam
from inceptionn.hdl.queue import PushQueue
from inceptionn.wire import BURST_BYTES, LANES, TAG_WORD_BYTES, Tag

OFFSET_BITS = (BURST_BYTES - 1).bit_length()
BEAT_BITS = 9
"""Beats are numbered modulo 512: a block's last group may lie 288 beats behind the last one received."""
POSITION_BITS = BEAT_BITS + OFFSET_BITS
WORDS = BURST_BYTES // TAG_WORD_BYTES
"""Tag words in a beat."""

BLOCK_LAYOUT = data.StructLayout(
    {
        # Groups in the block, less one.
        "more_groups": 9,
        # Lanes in its last group, less one.
        "more_lanes": 3,
        "base": 8,
        # Position of the byte before the block's data.
        "origin": POSITION_BITS,
        # The announced lane count is out of range.
        "unusable": 1,
    }
)
"""What is known of a block at its first beat."""

GROUP_LAYOUT = data.StructLayout(
    {
        "tags": 2 * LANES,
        # Positions of the byte before the group's data, and of their last byte.
        "start": POSITION_BITS,
        "end": POSITION_BITS,
        # The last group of its block, and the lanes in it, less one.
        "last": 1,
        "more_lanes": 3,
        "base": 8,
        # An absent lane has a tag, or the block is unusable.
        "fault": 1,
    }
)
"""A group, ready to be cut out of the data."""


def vector_bytes(tag: Value) -> Value:
    """Size of a lane's vector in bytes (3 bits): 0, 1, 2, 4 for tags 00, 01, 10, 11."""
    return Cat(tag == Tag.BITS8, tag == Tag.BITS16, tag == Tag.RAW)


class TagDecoder(wiring.Component):
    """Finds every group's place in the data from the tags alone (the paper's Tag Decoder, Fig. 10).

    Takes the beats of successive tag planes, one block after the other, and offers one group per cycle, at
    best ``LATENCY`` cycles after the beat that holds its tag word. The writer may not wait, but must keep
    ``stored`` below ``DEPTH - 1``.

    Since all tags come first, the only loop is the sum of the sizes; everything else is feed-forward.

    If a block ends inside its tag plane (``w_ends`` at a beat that is not the plane's last), the missing tag
    words are arbitrary, but the number of groups is not: the block is malformed, and its end position, which
    lies outside of it, shows it unless the sum happens to fit, so the writer must remember the fact.

    Members
    -------
    w_data : :py:`In(256)`
        A beat that holds tag words.
    w_block : :py:`In(BLOCK_LAYOUT)`
        The block, read with the first beat of its tag plane.
    w_ends : :py:`In(1)`
        The block ends with this beat.
    w_valid : :py:`In(1)`
    stored : :py:`Out(5)`
        Beats written and not yet in use, one cycle behind.
    group : :py:`Out(GROUP_LAYOUT)`
    group_valid : :py:`Out(1)`
    group_ready : :py:`In(1)`
    """

    DEPTH = 32
    GROUPS = 32
    LATENCY = 10

    w_data: In(8 * BURST_BYTES)
    w_block: In(BLOCK_LAYOUT)
    w_ends: In(1)
    w_valid: In(1)
    stored: Out(range(DEPTH))
    group: Out(GROUP_LAYOUT)
    group_valid: Out(1)
    group_ready: In(1)

    def elaborate(self, platform: Any) -> Module:
        # A small sequencer names one tag word per cycle by beat and index; the word itself is fetched
        # through free-running registers. Only room in the queue at the end can hold it up.
        m = Module()
        sync = m.d.sync

        block_bits = BLOCK_LAYOUT.size
        m.submodules.beats = beats = LutRam(8 * BURST_BYTES, self.DEPTH)
        m.submodules.blocks = blocks = LutRam(block_bits + 2, self.DEPTH)
        free = Signal(range(self.DEPTH))
        alone = self.w_block.more_groups == 0
        for memory, item in ((beats, self.w_data), (blocks, Cat(self.w_block, self.w_ends, alone))):
            # The slot at `free` is unused by contract: write it always, count it if valid.
            m.d.comb += [memory.write.eq(1), memory.write_address.eq(free), memory.write_data.eq(item)]
        with m.If(self.w_valid):
            sync += free.eq(free + 1)

        # A word sent takes six cycles to the queue, and `room` is three cycles old.
        m.submodules.queue = queue = PushQueue(GROUP_LAYOUT, self.GROUPS, slack=10, elastic=True)
        room = delayed(m, queue.room, 1, name="room", reset=True)

        # The sequencer.
        next_beat = Signal(range(self.DEPTH))
        after_next = Signal(range(self.DEPTH), init=1)
        available = Signal()
        m.d.comb += blocks.read_address.eq(next_beat)
        next_block = data.View(BLOCK_LAYOUT, blocks.read_data[:block_bits])

        active = Signal()
        beat = Signal(range(self.DEPTH))
        word = Signal(range(WORDS))
        more = Signal(9)
        last = Signal()
        first = Signal()
        was_last = Signal(init=1)
        wraps = Signal()
        ends = Signal()
        block = Signal(BLOCK_LAYOUT, reset_less=True)
        emit = Signal()
        leave = Signal()
        take = Signal()
        some = Signal()
        m.d.comb += [
            emit.eq(active & room),
            # A plane cut short goes round in its last beat until its groups are counted out.
            leave.eq(emit & (last | wraps)),
            take.eq((~active | leave) & available),
            some.eq(free != next_beat),
        ]
        # `take` comes late in the cycle, so both outcomes are ready before it chooses.
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

        # 16:1 choice of the tag word, two bits of the index per stage, behind a register for the RAM alone.
        m.d.comb += beats.read_address.eq(beat)
        fetched = delayed(m, beats.read_data, 1, name="fetched")
        high_index = delayed(m, word[2:], 1, name="high_index")
        four_words = Signal(8 * BURST_BYTES // 4, reset_less=True)
        tags_3 = Signal(2 * LANES, reset_less=True)
        low_index = delayed(m, word[:2], 2, name="low_index")
        with m.Switch(high_index):
            for index in range(4):
                with m.Case(index):
                    sync += four_words.eq(fetched.word_select(index, len(four_words)))
        with m.Switch(low_index):
            for index in range(4):
                with m.Case(index):
                    sync += tags_3.eq(four_words.word_select(index, len(tags_3)))

        # Sizes, their sum, and where that takes the position.
        sizes = [vector_bytes(tags_3.word_select(lane, 2)) for lane in range(LANES)]
        pairs = [
            delayed(m, (sizes[2 * i] + sizes[2 * i + 1])[:4], 1, name=f"pair_{i}") for i in range(LANES // 2)
        ]
        total = delayed(m, ((pairs[0] + pairs[1]) + (pairs[2] + pairs[3]))[:6], 1, name="total")
        valid_5 = delayed(m, emit, 5, name="valid", reset=True)
        first_5 = delayed(m, first, 5, name="first")
        origin_5 = delayed(m, block.origin, 5, name="origin")
        start = Signal(POSITION_BITS, reset_less=True)
        end = Signal(POSITION_BITS, reset_less=True)
        with m.If(valid_5):
            before = Mux(first_5, origin_5, end)
            sync += [start.eq(before), end.eq(before + total)]

        # Tags of lanes that the block does not have.
        last_3 = delayed(m, last, 3, name="last")
        more_lanes_3 = delayed(m, block.more_lanes, 3, name="more_lanes")
        unusable_3 = delayed(m, block.unusable, 3, name="unusable")
        absent = Cat(last_3 & (more_lanes_3 < lane) for lane in range(LANES))
        tagged = Cat(tags_3.word_select(lane, 2).any() for lane in range(LANES))
        fault_4 = delayed(m, unusable_3 | (absent & tagged).any(), 1, name="fault")

        m.d.comb += [
            queue.push.eq(delayed(m, valid_5, 1, name="valid_6", reset=True)),
            queue.push_data.tags.eq(delayed(m, tags_3, 3, name="tags")),
            queue.push_data.start.eq(start),
            queue.push_data.end.eq(end),
            queue.push_data.last.eq(delayed(m, last_3, 3, name="last_6")),
            queue.push_data.more_lanes.eq(delayed(m, more_lanes_3, 3, name="more_lanes_6")),
            queue.push_data.base.eq(delayed(m, block.base, 6, name="base")),
            queue.push_data.fault.eq(delayed(m, fault_4, 2, name="fault_6")),
            self.group.eq(queue.data),
            self.group_valid.eq(queue.valid),
            queue.pop.eq(self.group_ready),
        ]
        return m
