# SPDX-License-Identifier: BSD-2-Clause
"""Bursts of fp32 lanes in, blocks out: what the compressors of both codecs share."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from inceptionn.wire import LANE_BYTES, MAX_LANES

from ..engine.shape import USUAL, EngineShape
from ..parts.axi import AXIStream
from ..parts.beat import BURST, Beat
from ..parts.output_queue import OutputQueue
from ..parts.pipeline import Pipeline
from ..parts.queue import PushQueue
from .alignment_unit import AlignmentUnit
from .block_store import BlockReader, BlockStore, block_shape


class CodecParameters(data.Struct):
    """The numbers that lanes are compressed with (:class:`inceptionn.wire.paper.Parameters`)."""

    e0: 8
    t: 8
    b: 8


def lane_burst(width: Beat = BURST) -> data.StructLayout:
    """Return the layout of a burst of a run of lanes that becomes a block."""
    return data.StructLayout(
        {
            "first": 1,
            "last": 1,
            "lanes": width.bits,
            # Which lanes exist; all but in the last burst, where the upper ones may be absent.
            "present": width.lanes,
            # Where in a beat the block is to begin, in 16-bit words; valid only with `first`.
            "place": range(width.words),
        }
    )


class Compressor(wiring.Component):
    """Compresses runs of up to 2304 lanes into blocks and keeps the blocks until they are read or dropped.

    ::

        burst ─► unit ─┬─ vector, size ─► AlignmentUnit ─► data ring ─┐
                       └─ tags or codes ► plane ─────────► tag ring ──┴─ BlockStore ─► beat

    The base of :class:`.paper.compressor.Compressor` and :class:`.planes.compressor.Compressor`, which add
    the unit, the plane at a block's head, and the statistics.

    One burst of 8 or 16 lanes per cycle while ``room`` is high; nothing stalls. A block can be read 10 cycles
    after its last vector has left the unit, with 16 lanes 11.

    With 8 lanes **the cycle after** ``last`` **must be idle** (:class:`AlignmentUnit`). With 16 the next
    block may follow at once, unless the codec's plane needs an idle cycle.

    Parameters
    ----------
    statistics : :class:`bool`
        Whether to compute the checksums and class counts that the engine needs.
    width : :class:`Beat`
    """

    STATISTICS: Any
    """Layout of a report."""

    def __init__(self, width: Beat = BURST, *, statistics: bool = False):
        self.has_statistics = statistics
        self.width = width
        self.latency = BlockStore.latency_of(width)  # from `step` to its beat
        members = {
            #: Read together with every burst, and the same for all of a block.
            "parameters": In(CodecParameters),
            "bursts": In(stream.Signature(lane_burst(width), always_ready=True)),  #: The lanes.
            #: Bursts are accepted. After it falls, at most 10 more may follow, 16 with 16 lanes.
            "room": Out(1),
            "blocks": Out(BlockReader(width)),  #: The blocks that are ready, one at a time.
        }
        if statistics:
            #: With ``statistics=True``: one report per block, in order.
            members["statistics"] = Out(stream.Signature(self.STATISTICS, always_ready=True))
        super().__init__(members)

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.aligner = aligner = AlignmentUnit(self.width)
        m.submodules.store = store = BlockStore(self.width)
        wiring.connect(m, aligner.beats, store.data)
        wiring.connect(m, store.blocks, wiring.flipped(self.blocks))
        m.d.comb += self.room.eq(store.room)
        latency, vector, size = self._unit(m)
        p = self._marks(m, latency)
        valid, first, last, place = p.valid, p.first, p.last, p.place
        words_begun = self._plane(m, p, store)
        m.d.comb += [
            aligner.vectors.valid.eq(valid),
            aligner.vectors.payload.last.eq(last),
            aligner.vectors.payload.size.eq(size),
            aligner.vectors.payload.data.eq(vector),
        ]

        if self.has_statistics:
            m.submodules.statistics = statistics = self._statistics(m, p)
            wiring.connect(m, aligner.beats, statistics.beats)
            wiring.connect(m, statistics.reports, wiring.flipped(self.statistics))
            m.d.comb += statistics.done.eq(aligner.done)

        # The block's shape, from the words before the plane (`before`), those of the plane, and its bytes.
        # It must not overtake the last data beat, which leaves the aligner up to a cycle after its latency.
        words = Signal(10)
        length = Signal(14)
        before = Signal.like(place, reset_less=True)
        with m.If(valid):
            m.d.sync += length.eq(Mux(first, 0, length) + size)
        p.stage(begun=words_begun)
        p.let(length=length)
        valid, first, place, begun = p.valid, p.first, p.place, p.begun
        with m.If(valid):
            m.d.sync += words.eq(Mux(first, place, words) + begun)
        with m.If(valid & first):
            m.d.sync += before.eq(place)
        p.stage()
        p.let(words=words, plane_words=(words - before)[:9])
        p.stage(total=(p.words << 1) + p.length, block_bytes=(p.length + (p.plane_words << 1))[:14])
        shape = Signal(block_shape(self.width))
        at_word, at_byte = len(shape.rotation), len(shape.ending)
        m.d.comb += [
            shape.tag_beats.eq(p.words[at_word:] + p.words[:at_word].any()),
            shape.tag_whole.eq(p.words[at_word:]),
            shape.data_beats.eq(p.length[at_byte:] + p.length[:at_byte].any()),
            shape.beats.eq(p.total[at_byte:] + p.total[:at_byte].any()),
            shape.rotation.eq(p.words[:at_word]),
            shape.ending.eq(p.total[:at_byte]),
        ]
        p.let(shape=shape)
        if self.has_statistics:
            m.d.comb += statistics.block_bytes.eq(p.block_bytes)
        p.until(latency + aligner.latency + 2)
        m.d.comb += [store.shapes.valid.eq(p.last), store.shapes.payload.eq(p.shape)]
        return m

    def _marks(self, m: Module, cycles: int, prefix: str = "") -> Pipeline:
        """Mark each burst, ``cycles`` later: valid, its block's first or last, its place and its lanes."""
        valid, burst = self.bursts.valid, self.bursts.payload
        p = Pipeline(m, prefix, control={"valid", "first", "last"})
        p.let(
            valid=valid,
            first=valid & burst.first,
            last=valid & burst.last,
            place=burst.place,
            present=burst.present,
        )
        p.until(cycles)
        return p

    def _unit(self, m: Module) -> tuple[int, Value, Value]:
        """Add the unit; return the cycles from a burst to its vector, the vector, and the vector's bytes."""
        raise NotImplementedError

    def _plane(self, m: Module, marks: Pipeline, store: BlockStore) -> Value | int:
        """Add the plane and give its beats to the store; return how many words begin with this vector."""
        raise NotImplementedError

    def _statistics(self, m: Module, marks: Pipeline) -> Any:
        """Make the component that reports on each block, connected to the unit and the plane."""
        raise NotImplementedError


class StandaloneCompressor(wiring.Component):
    """A compressor alone (the paper's Fig. 9), between AXI4-Streams: one packet of fp32 in, one block out.

    Store and forward, since a block's plane precedes its data. Throughput: one input beat per cycle, with 8
    lanes and one idle cycle between packets. Where blocks are longer than their packets, one output beat per
    cycle. Latency from the last input beat to the first output beat of an idle compressor: 29 cycles, with 16
    lanes 34; of the planes codec 27 and 32.

    A packet of more than 2304 lanes gives the block of its first 2304, marked as overlong; the next packet is
    not affected.
    """

    MARKS = 128
    """Places for marks: more than the blocks that can be inside, 64 of them in the store's queue."""

    def __init__(self, shape: EngineShape = USUAL):
        self.shape = shape
        stream = AXIStream(self.shape.bytes)
        super().__init__(
            {
                "s_axis": In(stream),  #: ``tkeep`` at ``tlast`` a multiple of 4 bytes; ``tuser`` ignored.
                "m_axis": Out(stream),  #: ``tuser = 1`` at ``tlast``: overlong packet.
                #: E0 (:class:`inceptionn.wire.paper.Parameters`), constant from a packet's first beat until
                #: one cycle after its last.
                "cfg_e0": In(8),
                "cfg_t": In(8),  #: T, likewise. The planes codec does not use it.
                "cfg_b": In(8),  #: B, likewise. The planes codec does not use it.
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.core = core = self.shape.codec.compressor(self.shape)

        # Input register. With 8 lanes `tready` falls for the cycle after a packet's last beat.
        burst = core.bursts.payload
        accept = self.s_axis.tvalid & self.s_axis.tready
        most = MAX_LANES // self.shape.lanes
        more = Signal(init=1)
        count = Signal(range(most))
        first = Signal(init=1)
        last = Signal()
        room = core.room if self.shape.payload_overlaps else core.room & ~(accept & self.s_axis.tlast)
        m.d.comb += [
            last.eq(self.s_axis.tlast | (count == most - 1)),
            burst.place.eq(0),
        ]
        m.d.sync += [
            self.s_axis.tready.eq(room),
            core.bursts.valid.eq(accept & more),
            burst.first.eq(first),
            burst.last.eq(last),
            burst.lanes.eq(self.s_axis.tdata),
        ]
        for i in range(self.shape.lanes):
            m.d.sync += burst.present[i].eq(self.s_axis.tkeep[LANE_BYTES * i])
        with m.If(accept):
            m.d.sync += [
                first.eq(self.s_axis.tlast),
                count.eq(Mux(self.s_axis.tlast, 0, count + more)),
                more.eq(self.s_axis.tlast | (more & ~last)),
            ]
        m.d.comb += core.parameters.eq(Cat(self.cfg_e0, self.cfg_t, self.cfg_b))

        # An overlong packet is known at its block's last burst; the mark waits for the block's last beat.
        m.submodules.overlong = overlong = PushQueue(1, self.MARKS, slack=0)
        m.d.sync += [
            overlong.i.valid.eq(accept & more & last),
            overlong.i.payload.eq(~self.s_axis.tlast),
        ]

        # Output: step whenever there is a block and a place in the queue for its beat.
        latency, block = core.latency, core.blocks
        m.submodules.output = output = OutputQueue(latency + 4, self.shape)
        wiring.connect(m, output.m_axis, wiring.flipped(self.m_axis))
        ready = Signal()
        m.d.sync += ready.eq(output.room)
        m.d.comb += block.step.eq(block.valid & ready)
        p = Pipeline(m, control={"step", "last"})
        p.let(step=block.step, last=block.last, ending=block.shape.ending)
        p.until(latency)
        m.d.comb += [
            output.i.valid.eq(p.step),
            output.i.payload.tdata.eq(block.beat),
            output.i.payload.tlast.eq(p.last),
            output.i.payload.tuser.eq(p.last & overlong.o.payload),
            output.i.payload.ending.eq(p.ending),
            overlong.o.ready.eq(p.step & p.last),
        ]
        return m
