# SPDX-License-Identifier: BSD-2-Clause
"""Where a block waits: tags and data in two rings, read together as the block's bytes."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from inceptionn.hdl.alignment_unit import rotate_left_bytes
from inceptionn.hdl.delay import delayed
from inceptionn.hdl.memory import BlockRam
from inceptionn.hdl.queue import PushQueue
from inceptionn.wire import BURST_BYTES


class BlockShape(data.Struct):
    """What the reader must know of a block to step through it."""

    tag_beats: 5  # beats that hold tags, 1..19
    tag_whole: 5  # beats that hold nothing but tags (and what precedes them)
    data_beats: 9  # beats of the data ring, 0..288
    beats: 9  # beats of the block as it is read, 1..307
    rotation: 4  # place of the first data byte in its beat, in 16-bit words
    ending: 5  # bytes in the last beat, modulo 32


class BlockStore(wiring.Component):
    """Rings of finished tag and data beats, and the reader that joins them.

    Data lies packed from byte 0 of a beat; where it belongs in the block, behind ``2 * groups`` bytes
    of tags, is known only at the block's end. So the reader rotates it by that and ORs it onto the
    tags, which lie where they belong. Reading is a pipeline without stall: ``step`` takes one beat of
    the block at hand, which appears :attr:`LATENCY` cycles later.

    Parameters
    ----------
    data_depth, tag_depth : :class:`int`
        Beats in the rings, powers of two. 512 hold a block of 2304 lanes while another is read.
    slack : :class:`int`
        Most beats that each ring may still be given when ``room`` has fallen; and half as many blocks may
        still be finished.

    Members
    -------
    tag_valid, tag_beat, data_valid, data_beat
        Beats to store.
    finished : :py:`In(1)`
        A block is complete; not before its last beat was written.
    finished_shape : :py:`In(BlockShape)`
    room : :py:`Out(1)`
    ready : :py:`Out(1)`
        A block is at hand: ``step`` and ``drop`` are allowed, ``shape`` describes it.
    shape : :py:`Out(BlockShape)`
    step : :py:`In(1)`
        Reads the next beat of the block at hand; the next block follows after the last.
    last : :py:`Out(1)`
        The next ``step`` is the block's last.
    drop : :py:`In(1)`
        Discards the block at hand, of which no beat may have been read. Not together with ``step``.
    beat : :py:`Out(256)`
        The beat of the ``step`` :attr:`LATENCY` cycles before; zero outside the block.
    """

    LATENCY = BlockRam.LATENCY + 3

    def __init__(self, data_depth: int = 512, tag_depth: int = 128, slack: int = 40):
        self.data_depth = data_depth
        self.tag_depth = tag_depth
        self.slack = slack
        super().__init__(
            {
                "tag_valid": In(1),
                "tag_beat": In(8 * BURST_BYTES),
                "data_valid": In(1),
                "data_beat": In(8 * BURST_BYTES),
                "finished": In(1),
                "finished_shape": In(BlockShape),
                "room": Out(1),
                "ready": Out(1),
                "shape": Out(BlockShape),
                "step": In(1),
                "last": Out(1),
                "drop": In(1),
                "beat": Out(8 * BURST_BYTES),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.tags = tags = BlockRam(8 * BURST_BYTES, self.tag_depth)
        m.submodules.data = stored = BlockRam(8 * BURST_BYTES, self.data_depth)
        # One more than may still be finished: `room` falls a cycle after the queue's own.
        m.submodules.shapes = shapes = PushQueue(BlockShape, 64, self.slack // 2 + 1, elastic=True)
        m.d.comb += [shapes.push.eq(self.finished), shapes.push_data.eq(self.finished_shape)]

        # Writing.
        for ram, valid, beat in (
            (tags, self.tag_valid, self.tag_beat),
            (stored, self.data_valid, self.data_beat),
        ):
            m.d.comb += [ram.write.eq(valid), ram.write_data.eq(beat)]
            m.d.sync += ram.write_address.eq(ram.write_address + valid)
        # `room` follows the addresses three cycles late, and a full ring would look like an empty one.
        spare = self.slack + 3 + 1
        tag_room, data_room = Signal(), Signal()
        for ram, room in ((tags, tag_room), (stored, data_room)):
            level = Signal.like(ram.write_address)
            m.d.sync += [
                level.eq(ram.write_address - ram.read_address),
                room.eq(level < ram.depth - spare),
            ]
        m.d.sync += self.room.eq(tag_room & data_room & shapes.room)

        # Stepping. The counters count what is left; their zero flags are registers of their own.
        # `tag_more`: the next beat holds tags. `data_due`: data has begun. `data_more`: data is left.
        tag_left, data_wait = Signal(5), Signal(5)
        data_left, beats_left = Signal(9), Signal(9)
        tag_more, data_due, data_more = Signal(), Signal(), Signal()
        take_tag, take_data, load = Signal(), Signal(), Signal()
        m.d.comb += [
            take_tag.eq(self.step & tag_more),
            take_data.eq(self.step & data_due & data_more),
            load.eq(~self.ready | self.drop | (self.step & self.last)),
            shapes.pop.eq(load),
        ]
        with m.If(load):
            m.d.sync += [
                self.ready.eq(shapes.valid),
                self.shape.eq(shapes.data),
                tag_left.eq(shapes.data.tag_beats),
                data_wait.eq(shapes.data.tag_whole),
                data_left.eq(shapes.data.data_beats),
                beats_left.eq(shapes.data.beats),
                tag_more.eq(1),
                data_due.eq(shapes.data.tag_whole == 0),
                data_more.eq(shapes.data.data_beats != 0),
                self.last.eq(shapes.data.beats == 1),
            ]
        with m.Elif(self.step):
            m.d.sync += [
                tag_left.eq(tag_left - 1),
                data_wait.eq(data_wait - 1),
                data_left.eq(data_left - data_due),
                beats_left.eq(beats_left - 1),
                tag_more.eq(tag_more & (tag_left != 1)),
                data_due.eq(data_due | (data_wait == 1)),
                data_more.eq(data_more & ~(data_due & (data_left == 1))),
                self.last.eq(beats_left == 2),
            ]
        m.d.sync += [
            tags.read_address.eq(tags.read_address + Mux(self.drop, self.shape.tag_beats, take_tag)),
            stored.read_address.eq(stored.read_address + Mux(self.drop, self.shape.data_beats, take_data)),
        ]

        # Two cycles later the beats are there: rotate the data, split it at its place, OR.
        stepped = delayed(m, self.step, BlockRam.LATENCY + 2, name="stepped", reset=True)
        have_tag = delayed(m, take_tag, BlockRam.LATENCY, name="have_tag")
        have_data = delayed(m, take_data, BlockRam.LATENCY, name="have_data")
        rotation = delayed(m, self.shape.rotation, BlockRam.LATENCY, name="rotation")
        rotated1 = Signal(8 * BURST_BYTES, reset_less=True)
        rotation1 = Signal(4, reset_less=True)
        m.d.sync += [
            rotated1.eq(rotate_left_bytes(Mux(have_data, stored.read_data, 0), rotation[0:2], 2)),
            rotation1.eq(rotation),
        ]
        rotated2 = Signal(8 * BURST_BYTES, reset_less=True)
        current2 = Signal(BURST_BYTES // 2, reset_less=True)
        m.d.sync += rotated2.eq(rotate_left_bytes(rotated1, rotation1[2:4], 8))
        for i in range(BURST_BYTES // 2):
            m.d.sync += current2[i].eq(rotation1 <= i)
        tag1 = Signal(8 * BURST_BYTES, reset_less=True)
        tag2 = Signal(8 * BURST_BYTES, reset_less=True)
        m.d.sync += [tag1.eq(Mux(have_tag, tags.read_data, 0)), tag2.eq(tag1)]
        carry = Signal(8 * BURST_BYTES)
        for i in range(BURST_BYTES // 2):
            word, held = rotated2.word_select(i, 16), carry.word_select(i, 16)
            m.d.sync += self.beat.word_select(i, 16).eq(
                tag2.word_select(i, 16) | held | Mux(current2[i], word, 0)
            )
            with m.If(stepped):
                m.d.sync += held.eq(Mux(current2[i], 0, word))
        return m
