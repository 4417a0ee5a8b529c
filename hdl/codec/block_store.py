# SPDX-License-Identifier: BSD-2-Clause
"""Block memory: tags and data in two rings, read together as the block's bytes."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from inceptionn.wire import GROUP_LANES, LANE_BYTES, MAX_LANES, TAG_WORD_BYTES

from ..parts.memory import BlockRam
from ..parts.pipeline import Pipeline
from ..parts.queue import StagedQueue
from ..parts.rotation import rotate_in_stages
from ..parts.width import BURST, Width


def block_shape(width: Width = BURST) -> data.StructLayout:
    """Return the layout of a block for a reader that steps through it, in beats of this width."""
    words = width.words
    tags = MAX_LANES // GROUP_LANES + words - 1  # with the words before the first one
    data_beats = MAX_LANES // width.lanes
    return data.StructLayout(
        {
            # Beats that hold tags; beats that hold nothing but tags (and what precedes them).
            "tag_beats": range(-(-tags // words) + 1),
            "tag_whole": range(-(-tags // words) + 1),
            # Beats of the data ring, and of the block as it is read.
            "data_beats": range(data_beats + 1),
            "beats": range(-(-(tags * TAG_WORD_BYTES + MAX_LANES * LANE_BYTES) // width.bytes) + 1),
            # Place of the first data byte in its beat, in 16-bit words.
            "rotation": range(words),
            # Bytes in the last beat, modulo its width.
            "ending": range(width.bytes),
        }
    )


class BlockReader(wiring.Signature):
    """The reading side of a memory of blocks, seen from the memory.

    ``step`` reads one beat of the current block, at most one per cycle. It appears
    :meth:`BlockStore.latency_of` cycles later, without a handshake.
    """

    def __init__(self, width: Width = BURST):
        self.width = width
        super().__init__(
            {
                #: There is a current block: ``step`` and ``drop`` are allowed, ``shape`` describes it. The
                #: next block is there in the cycle after this one's last ``step`` or its ``drop``, if it was
                #: complete three cycles before.
                "valid": Out(1),
                "shape": Out(block_shape(width)),  #: The current block's.
                "step": In(1),  #: Reads the current block's next beat; the next block follows after the last.
                "last": Out(1),  #: The next ``step`` is the block's last.
                #: Discards the current block, of which no beat may have been read. Not together with
                #: ``step``.
                "drop": In(1),
                #: The beat of an earlier ``step``, from gates; zero outside the block.
                "beat": Out(width.bits),
            }
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BlockReader) and self.width == other.width

    def __repr__(self) -> str:
        return f"BlockReader({self.width!r})"


class BlockStore(wiring.Component):
    """Keeps finished blocks in two rings, one of tags and one of data, and joins the two when it reads.

    Data are stored packed from byte 0 of a beat. Their place in the block, after the tags, is known only at
    the block's end. So the reader rotates the data to their place and ORs them onto the tags, which are
    stored in place. One beat per cycle can be written to each ring, and one read. A beat appears
    :attr:`latency` cycles after its ``step``: 5 with 8 lanes, 6 with 16.

    Parameters
    ----------
    data_depth, tag_depth : :class:`int`
        Beats in the rings, powers of two. The longest block has 288 beats of data, with 16 lanes 144; a block
        RAM has at least 512 words.
    slack : :class:`int`
        Most beats that may still come for each ring after ``room`` has fallen. As many blocks may then end,
        with 8 lanes half as many, since a block takes at least two cycles.
    width : :class:`Width`
    """

    def __init__(self, width: Width = BURST, *, data_depth: int = 512, tag_depth: int = 128, slack: int = 40):
        self.data_depth = data_depth
        self.tag_depth = tag_depth
        self.slack = slack
        self.width = width
        self.latency = self.latency_of(self.width)
        super().__init__(
            {
                #: Beats of the tables to store.
                "tags": In(stream.Signature(self.width.bits, always_ready=True)),
                #: Beats of the data to store.
                "data": In(stream.Signature(self.width.bits, always_ready=True)),
                #: A block is complete; not before its last beat was written.
                "shapes": In(stream.Signature(block_shape(width), always_ready=True)),
                "room": Out(1),  #: A register: beats may come.
                "blocks": Out(BlockReader(width)),  #: The current block.
            }
        )

    @staticmethod
    def latency_of(width: Width) -> int:
        """Count the cycles from ``step`` to its beat.

        They are a register, the RAM, and a stage per base-4 digit of the rotation.
        """
        return 1 + BlockRam.LATENCY + width.place_bits // 2

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.tags = tags = BlockRam(self.width.bits, self.tag_depth)
        m.submodules.data = stored = BlockRam(self.width.bits, self.data_depth)
        blocks = self.slack if self.width.payload_overlaps else self.slack // 2
        # One more than may still be finished: `room` falls a cycle after the queue's own.
        m.submodules.shapes = shapes = StagedQueue(block_shape(self.width), 64, blocks + 1)
        wiring.connect(m, wiring.flipped(self.shapes), shapes.i)

        self._write(m, tags, stored, shapes.room)

        # The current block, and how many of its beats are left. This half of the reader is next to whoever
        # steps; it shares no path with the rings, which follow a cycle later.
        current, shape = self.blocks, shapes.o.payload
        beats_left = Signal(len(shape.beats))
        load = Signal()
        m.d.comb += [
            load.eq(~current.valid | current.drop | (current.step & current.last)),
            shapes.o.ready.eq(load),
        ]
        with m.If(load):
            m.d.sync += [current.valid.eq(shapes.o.valid), current.shape.eq(shape)]

        # Stage 1: the rings. The counters count what is left; their zero flags are registers of their own.
        # `tag_more`: the next beat holds tags. `data_due`: data has begun. `data_more`: data is left.
        p = Pipeline(m, control={"step", "drop", "load"})
        p.let(load=load, step=current.step, drop=current.drop, shape=current.shape)
        p.stage()
        # The count of beats is loaded a cycle late, so its registers do not depend on `load`.
        left = Signal.like(beats_left)
        m.d.comb += left.eq(Mux(p.load, current.shape.beats, beats_left))
        m.d.sync += beats_left.eq(left - current.step)
        with m.If(load):
            m.d.sync += current.last.eq(shapes.o.payload.beats == 1)
        with m.Elif(current.step):
            m.d.sync += current.last.eq(left == 2)
        shape, following = p.shape, current.shape
        tag_left = Signal(len(shape.tag_beats))
        data_wait = Signal(len(shape.tag_whole))
        data_left = Signal(len(shape.data_beats))
        tag_more = Signal()
        data_due = Signal()
        data_more = Signal()
        p.let(have_tag=p.step & tag_more, have_data=p.step & data_due & data_more, rotation=shape.rotation)
        with m.If(p.load):
            m.d.sync += [
                tag_left.eq(following.tag_beats),
                data_wait.eq(following.tag_whole),
                data_left.eq(following.data_beats),
                tag_more.eq(1),
                data_due.eq(following.tag_whole == 0),
                data_more.eq(following.data_beats != 0),
            ]
        with m.Elif(p.step):
            m.d.sync += [
                tag_left.eq(tag_left - 1),
                data_wait.eq(data_wait - 1),
                data_left.eq(data_left - data_due),
                tag_more.eq(tag_more & (tag_left != 1)),
                data_due.eq(data_due | (data_wait == 1)),
                data_more.eq(data_more & ~(data_due & (data_left == 1))),
            ]
        m.d.sync += [
            ram.read_address.eq(ram.read_address + Mux(p.drop, beats, take))
            for ram, beats, take in (
                (tags, shape.tag_beats, p.have_tag),
                (stored, shape.data_beats, p.have_data),
            )
        ]
        self._join(m, p, tags, stored)
        return m

    def _write(self, m: Module, tags: BlockRam, stored: BlockRam, shapes_room: Value) -> None:
        """Write the incoming beats, and tell whether there is room for more."""
        for ram, beats in ((tags, self.tags), (stored, self.data)):
            m.d.comb += [ram.write.eq(beats.valid), ram.write_data.eq(beats.payload)]
            m.d.sync += ram.write_address.eq(ram.write_address + beats.valid)
        # `room` follows the addresses three cycles late, and a full ring would look like an empty one.
        spare = self.slack + 3 + 1
        tag_room = Signal()
        data_room = Signal()
        for ram, room in ((tags, tag_room), (stored, data_room)):
            level = Signal.like(ram.write_address)
            m.d.sync += [
                level.eq(ram.write_address - ram.read_address),
                room.eq(level < ram.depth - spare),
            ]
        m.d.sync += self.room.eq(tag_room & data_room & shapes_room)

    def _join(self, m: Module, p: Pipeline, tags: BlockRam, stored: BlockRam) -> None:
        """Rotate the data, two cycles later; split them at their place; OR them with the tags."""
        for _ in range(BlockRam.LATENCY):
            p.stage()
        p.let(tag=Mux(p.have_tag, tags.read_data, 0), rotated=Mux(p.have_data, stored.read_data, 0))
        rotate_in_stages(p, TAG_WORD_BYTES, self.width.place_bits // 2)
        stepped, tag, here = p.step, p.tag, p.current
        carry = Signal(self.width.bits)
        for i in range(self.width.words):
            word, held = p.rotated.word_select(i, 16), carry.word_select(i, 16)
            beat = tag.word_select(i, 16) | held | Mux(here[i], word, 0)
            m.d.comb += self.blocks.beat.word_select(i, 16).eq(beat)
            with m.If(stepped):
                m.d.sync += held.eq(Mux(here[i], 0, word))
