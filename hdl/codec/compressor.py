# SPDX-License-Identifier: BSD-2-Clause
"""Bursts of fp32 lanes in, blocks out: what the compressors of both codecs share."""

from typing import Any, NamedTuple

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from inceptionn.wire import GROUP_LANES, LANE_BYTES, MAX_LANES

from ..parts.axi import AXIStream
from ..parts.beat import Beat
from ..parts.delay import delayed
from ..parts.output_queue import OutputQueue
from .alignment_unit import AlignmentUnit
from .block_store import BlockStore, block_shape
from .codecs import PAPER, codec_of


class Marks(NamedTuple):
    """What is known of a burst ``cycles`` after it: is there one, its block's first or last; its place."""

    cycles: int
    valid: Value
    first: Value
    last: Value
    place: Value


class Compressor(wiring.Component):
    """Compresses runs of up to 2304 lanes into blocks and keeps the blocks until they are read or dropped.

    ::

        burst ─► unit ─┬─ vector, size ─► AlignmentUnit ─► data ring ─┐
                       └─ tags or codes ► plane ─────────► tag ring ──┴─ BlockStore ─► beat

    The base of :class:`.paper.compressor.Compressor` and :class:`.planes.compressor.Compressor`, which add
    the unit, the plane at a block's head, and the statistics.

    A pipeline without stall: one burst of 8 or 16 lanes per cycle while ``room`` was high. A block can be
    read from 10 cycles (with 16 lanes 11) after its last vector has left the unit on.

    With 8 lanes **the cycle after** ``last`` **must be idle** (:class:`AlignmentUnit`). With 16 the next
    block may follow at once, but for what the plane says.

    Parameters
    ----------
    statistics : :class:`bool`
        Whether to compute the checksums and class counts that the engine needs.
    lanes : :class:`int`
        Lanes of a burst: 8 or 16. Beats have 4 bytes for each.

    Members
    -------
    e0, t, b : :py:`In(8)`
        Codec parameters; read together with every burst, and the same for all of a block.
    valid, first, last : :py:`In(1)`
    burst : :py:`In(32 * lanes)`
    present : :py:`In(lanes)`
        Which lanes exist; all but in the last burst, where the upper ones may be absent.
    place : :py:`In(range(2 * lanes))`
        Where in a beat the block is to begin, in 16-bit words; read with ``first``.
    room : :py:`Out(1)`
        Bursts may come; once it has fallen, up to 10 more, with 16 lanes 16.
    ready, shape, step, last_step, drop, beat
        Reading side: see :class:`BlockStore`.
    statistics, statistics_valid
        With ``statistics=True``: one report per block, in order.
    """

    STATISTICS: Any
    """Layout of a report."""

    def __init__(self, *, statistics: bool = False, lanes: int = GROUP_LANES):
        self.has_statistics = statistics
        self.lanes = lanes
        self.width = width = Beat.of_groups(lanes)
        self.latency = BlockStore.latency_of(width)  # from `step` to its beat
        members = {
            "e0": In(8),
            "t": In(8),
            "b": In(8),
            "valid": In(1),
            "first": In(1),
            "last": In(1),
            "burst": In(width.bits),
            "present": In(lanes),
            "place": In(range(width.words)),
            "room": Out(1),
            "ready": Out(1),
            "shape": Out(block_shape(lanes)),
            "step": In(1),
            "last_step": Out(1),
            "drop": In(1),
            "beat": Out(width.bits),
        }
        if statistics:
            members |= {"statistics": Out(self.STATISTICS), "statistics_valid": Out(1)}
        super().__init__(members)

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.aligner = aligner = AlignmentUnit(lanes=self.lanes)
        m.submodules.store = store = BlockStore(lanes=self.lanes)
        m.d.comb += [
            self.room.eq(store.room),
            self.ready.eq(store.ready),
            self.shape.eq(store.shape),
            store.step.eq(self.step),
            self.last_step.eq(store.last),
            store.drop.eq(self.drop),
            self.beat.eq(store.beat),
        ]
        behind, vector, size = self._unit(m)
        marks = self._marks(m, behind)
        valid, first, last, place = marks[1:]
        words_begun = self._plane(m, marks, store)
        m.d.comb += [
            aligner.valid.eq(valid),
            aligner.last.eq(last),
            aligner.size.eq(size),
            aligner.vector.eq(vector),
            store.data_valid.eq(aligner.beat_valid),
            store.data_beat.eq(aligner.beat),
        ]

        # The block's shape, from the words before the plane (`place`), those of the plane, and its bytes.
        # It must not overtake the last data beat, which leaves the aligner up to a cycle after its latency.
        words = Signal(10)
        length = Signal(14)
        place1 = Signal(len(self.place), reset_less=True)
        last1 = Signal()
        m.d.sync += last1.eq(last)
        with m.If(valid):
            m.d.sync += [
                words.eq(Mux(first, place, words) + words_begun),
                length.eq(Mux(first, 0, length) + size),
            ]
        with m.If(valid & first):
            m.d.sync += place1.eq(place)
        total2 = Signal(15, reset_less=True)
        words2 = Signal(10, reset_less=True)
        length2 = Signal(14, reset_less=True)
        m.d.sync += [total2.eq((words << 1) + length), words2.eq(words), length2.eq(length)]
        shape3 = Signal(block_shape(self.lanes), reset_less=True)
        at_word, at_byte = len(shape3.rotation), len(shape3.ending)
        m.d.sync += [
            shape3.tag_beats.eq(words2[at_word:] + words2[:at_word].any()),
            shape3.tag_whole.eq(words2[at_word:]),
            shape3.data_beats.eq(length2[at_byte:] + length2[:at_byte].any()),
            shape3.beats.eq(total2[at_byte:] + total2[:at_byte].any()),
            shape3.rotation.eq(words2[:at_word]),
            shape3.ending.eq(total2[:at_byte]),
        ]
        finished3 = delayed(m, last1, 2, name="finished", reset=True)
        wait = aligner.latency + 2 - 3
        m.d.comb += [
            store.finished.eq(delayed(m, finished3, wait, name="finished_late", reset=True)),
            store.finished_shape.eq(delayed(m, shape3.as_value(), wait, name="shape")),
        ]

        if self.has_statistics:
            length3 = Signal(14, reset_less=True)
            plane_words2 = Signal(9, reset_less=True)
            m.d.sync += [plane_words2.eq(words - place1), length3.eq(length2 + (plane_words2 << 1))]
            m.submodules.statistics = statistics = self._statistics(m, marks)
            m.d.comb += [
                statistics.block_bytes.eq(length3),
                statistics.beat_valid.eq(aligner.beat_valid),
                statistics.beat.eq(aligner.beat),
                statistics.done.eq(aligner.done),
                self.statistics.eq(statistics.report),
                self.statistics_valid.eq(statistics.report_valid),
            ]
        return m

    def _marks(self, m: Module, cycles: int) -> Marks:
        """The marks of the burst ``cycles`` ago."""
        marks = Cat(self.valid, self.valid & self.first, self.valid & self.last)
        valid, first, last = delayed(m, marks, cycles, name="marks", reset=True)
        return Marks(cycles, valid, first, last, delayed(m, self.place, cycles, name="place"))

    def _unit(self, m: Module) -> tuple[int, Value, Value]:
        """Adds the unit: cycles from a burst to its vector, the vector, and the vector's bytes."""
        raise NotImplementedError

    def _plane(self, m: Module, marks: Marks, store: BlockStore) -> Value | int:
        """Adds the plane and gives its beats to the store; how many of its words begin with this vector."""
        raise NotImplementedError

    def _statistics(self, m: Module, marks: Marks) -> Any:
        """The component that makes a report per block, joined to the unit and the plane."""
        raise NotImplementedError


class StandaloneCompressor(wiring.Component):
    """A compressor alone (the paper's Fig. 9), between AXI4-Streams: one packet of fp32 in, one block out.

    Store and forward, since a block's plane precedes its data. One input beat per cycle (with 8 lanes but for
    one idle cycle between packets), unless blocks are longer than their packets: then one output beat.
    From the last input beat to the first output beat, if no other block is before it, 29 cycles (codec
    planes: 27), with 16 lanes 34 (32). A packet's lanes after the 2304th are ignored.

    Parameters
    ----------
    codec : :class:`str`
        Name of the codec, "paper" or "planes".
    lanes : :class:`int`
        Lanes of a beat: 8 or 16.

    Members
    -------
    s_axis : :py:`In(AXIStream(4 * lanes))`
        ``tkeep`` at ``tlast`` a multiple of 4 bytes; ``tuser`` ignored.
    m_axis : :py:`Out(AXIStream(4 * lanes))`
        ``tuser`` is 0.
    cfg_e0, cfg_t, cfg_b : :py:`In(8)`
        Codec parameters (:class:`inceptionn.wire.Parameters`); constant from a packet's first beat until one
        cycle after its last. The codec planes does not use the last two.
    """

    def __init__(self, *, codec: str = PAPER, lanes: int = GROUP_LANES):
        self.codec = codec_of(codec)
        self.lanes = lanes
        self.width = Beat.of_groups(lanes)
        stream = AXIStream(self.width.bytes)
        super().__init__(
            {"s_axis": In(stream), "m_axis": Out(stream), "cfg_e0": In(8), "cfg_t": In(8), "cfg_b": In(8)}
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.core = core = self.codec.compressor(lanes=self.lanes)

        # Input register. With 8 lanes `tready` falls for the cycle after a packet's last beat.
        accept = self.s_axis.tvalid & self.s_axis.tready
        most = MAX_LANES // self.lanes
        more = Signal(init=1)
        count = Signal(range(most))
        first = Signal(init=1)
        last = Signal()
        room = core.room if self.width.payload_overlaps else core.room & ~(accept & self.s_axis.tlast)
        m.d.comb += last.eq(self.s_axis.tlast | (count == most - 1))
        m.d.sync += [
            self.s_axis.tready.eq(room),
            core.valid.eq(accept & more),
            core.first.eq(first),
            core.last.eq(last),
            core.burst.eq(self.s_axis.tdata),
        ]
        for i in range(self.lanes):
            m.d.sync += core.present[i].eq(self.s_axis.tkeep[LANE_BYTES * i])
        with m.If(accept):
            m.d.sync += [
                first.eq(self.s_axis.tlast),
                count.eq(Mux(self.s_axis.tlast, 0, count + more)),
                more.eq(self.s_axis.tlast | (more & ~last)),
            ]
        m.d.comb += [core.e0.eq(self.cfg_e0), core.t.eq(self.cfg_t), core.b.eq(self.cfg_b)]

        # Output: step whenever there is a block and a place in the queue for its beat.
        behind = core.latency
        m.submodules.output = output = OutputQueue(slack=behind + 4, lanes=self.lanes)
        wiring.connect(m, output.m_axis, wiring.flipped(self.m_axis))
        ready = Signal()
        m.d.sync += ready.eq(output.room)
        m.d.comb += core.step.eq(core.ready & ready)
        step, last = delayed(m, Cat(core.step, core.last_step), behind, name="marks", reset=True)
        m.d.comb += [
            output.i.valid.eq(step),
            output.i.payload.tdata.eq(core.beat),
            output.i.payload.tlast.eq(last),
            output.i.payload.ending.eq(delayed(m, core.shape.ending, behind, name="ending")),
        ]
        return m
