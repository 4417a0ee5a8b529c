# SPDX-License-Identifier: BSD-2-Clause
"""The paper's Fig. 9: bursts of fp32 lanes in, blocks out."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from inceptionn.hdl.alignment_unit import AlignmentUnit
from inceptionn.hdl.axi import AXIStream
from inceptionn.hdl.block_statistics import BlockStatistics, Statistics
from inceptionn.hdl.block_store import BlockShape, BlockStore
from inceptionn.hdl.compression_unit import CompressionUnit
from inceptionn.hdl.delay import delayed
from inceptionn.hdl.output_queue import OutputQueue
from inceptionn.hdl.tag_plane import TagPlane
from inceptionn.wire import BURST_BYTES, LANES, MAX_LANES


class Compressor(wiring.Component):
    """Compresses runs of up to 2304 lanes into blocks and keeps the blocks until they are read or dropped.

    ::

        burst ─► CompressionUnit ─┬─ vector, size ─► AlignmentUnit ─► data ring ─┐
                 (11 cycles)      └─ tag word ─────► TagPlane ──────► tag ring ──┴─ BlockStore ─► beat

    A pipeline without stall: one burst per cycle while ``room`` was high, except that **the cycle
    after** ``last`` **must be idle** (:class:`AlignmentUnit`). A block can be read from 21 cycles
    after its last burst on.

    Parameters
    ----------
    statistics : :class:`bool`
        Whether to compute the checksums and class counts that the engine needs.

    Members
    -------
    e0, t, b : :py:`In(8)`
        Codec parameters; read together with every burst, and the same for all of a block.
    valid, first, last : :py:`In(1)`
    burst : :py:`In(256)`
    present : :py:`In(8)`
        Which lanes exist; all but in the last burst, where the upper ones may be absent.
    place : :py:`In(4)`
        Where in a beat the block is to begin, in 16-bit words; read with ``first``.
    room : :py:`Out(1)`
        Bursts may come; once it has fallen, up to 10 more.
    ready, shape, step, last_step, drop, beat
        Reading side: see :class:`BlockStore`.
    statistics, statistics_valid
        With ``statistics=True``: one report per block, in order.
    """

    LATENCY = BlockStore.LATENCY

    def __init__(self, *, statistics: bool = False):
        self.has_statistics = statistics
        members = {
            "e0": In(8),
            "t": In(8),
            "b": In(8),
            "valid": In(1),
            "first": In(1),
            "last": In(1),
            "burst": In(8 * BURST_BYTES),
            "present": In(LANES),
            "place": In(4),
            "room": Out(1),
            "ready": Out(1),
            "shape": Out(BlockShape),
            "step": In(1),
            "last_step": Out(1),
            "drop": In(1),
            "beat": Out(8 * BURST_BYTES),
        }
        if statistics:
            members |= {"statistics": Out(Statistics), "statistics_valid": Out(1)}
        super().__init__(members)

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.unit = unit = CompressionUnit()
        m.submodules.plane = plane = TagPlane()
        m.submodules.aligner = aligner = AlignmentUnit()
        m.submodules.store = store = BlockStore()
        m.d.comb += [
            unit.burst.eq(self.burst),
            unit.present.eq(Mux(self.valid, self.present, 0)),
            unit.e0.eq(self.e0),
            unit.t.eq(self.t),
            unit.b.eq(self.b),
            self.room.eq(store.room),
            self.ready.eq(store.ready),
            self.shape.eq(store.shape),
            store.step.eq(self.step),
            self.last_step.eq(store.last),
            store.drop.eq(self.drop),
            self.beat.eq(store.beat),
        ]
        marks = Cat(self.valid, self.valid & self.first, self.valid & self.last)
        valid, first, last = delayed(m, marks, unit.LATENCY, name="marks", reset=True)
        place = delayed(m, self.place, unit.LATENCY, name="place")
        m.d.comb += [
            plane.valid.eq(valid),
            plane.first.eq(first),
            plane.last.eq(last),
            plane.place.eq(place),
            plane.tags.eq(unit.tags),
            aligner.valid.eq(valid),
            aligner.last.eq(last),
            aligner.size.eq(unit.size),
            aligner.vector.eq(unit.aligned),
            store.tag_valid.eq(plane.beat_valid),
            store.tag_beat.eq(plane.beat),
            store.data_valid.eq(aligner.beat_valid),
            store.data_beat.eq(aligner.beat),
        ]

        # The block's shape, from the words before the first tag (`place`), its groups and its bytes.
        # It must not overtake the last data beat, which leaves the aligner up to LATENCY + 1 later.
        words, length = Signal(10), Signal(14)
        place1 = Signal(4, reset_less=True)
        last1 = Signal()
        m.d.sync += last1.eq(last)
        with m.If(valid):
            m.d.sync += [
                words.eq(Mux(first, place, words) + 1),
                length.eq(Mux(first, 0, length) + unit.size),
            ]
        with m.If(valid & first):
            m.d.sync += place1.eq(place)
        total2, words2 = Signal(15, reset_less=True), Signal(10, reset_less=True)
        length2 = Signal(14, reset_less=True)
        m.d.sync += [total2.eq((words << 1) + length), words2.eq(words), length2.eq(length)]
        shape3 = Signal(BlockShape, reset_less=True)
        m.d.sync += [
            shape3.tag_beats.eq(words2[4:] + words2[:4].any()),
            shape3.tag_whole.eq(words2[4:]),
            shape3.data_beats.eq(length2[5:] + length2[:5].any()),
            shape3.beats.eq(total2[5:] + total2[:5].any()),
            shape3.rotation.eq(words2[:4]),
            shape3.ending.eq(total2[:5]),
        ]
        finished3 = delayed(m, last1, 2, name="finished", reset=True)
        wait = aligner.LATENCY + 2 - 3
        m.d.comb += [
            store.finished.eq(delayed(m, finished3, wait, name="finished_late", reset=True)),
            store.finished_shape.eq(delayed(m, shape3.as_value(), wait, name="shape")),
        ]

        if self.has_statistics:
            m.submodules.statistics = statistics = BlockStatistics()
            length3 = Signal(14, reset_less=True)
            groups2 = Signal(9, reset_less=True)
            m.d.sync += [groups2.eq(words - place1), length3.eq(length2 + (groups2 << 1))]
            m.d.comb += [
                statistics.valid.eq(valid),
                statistics.last.eq(last),
                statistics.tags.eq(unit.tags),
                statistics.present.eq(delayed(m, self.present, unit.LATENCY, name="present")),
                statistics.cleared.eq(unit.cleared),
                statistics.block_bytes.eq(length3),
                statistics.beat_valid.eq(aligner.beat_valid),
                statistics.beat.eq(aligner.beat),
                statistics.done.eq(aligner.done),
                self.statistics.eq(statistics.report),
                self.statistics_valid.eq(statistics.report_valid),
            ]
        return m


class StandaloneCompressor(wiring.Component):
    """Fig. 9 alone, between two AXI4-Streams: one packet of fp32 bursts in, one block out.

    Store and forward, since a block's tags precede its data. One input beat per cycle but for one idle
    cycle between packets, unless blocks are longer than their packets: then one output beat per cycle.
    29 cycles from the last input beat to the first output beat, if no other block is before it. A
    packet's lanes behind the 2304th are ignored.

    Members
    -------
    s_axis : :py:`In(AXIStream())`
        ``tkeep`` at ``tlast`` a multiple of 4 bytes; ``tuser`` ignored.
    m_axis : :py:`Out(AXIStream())`
        ``tuser`` is 0.
    cfg_e0, cfg_t, cfg_b : :py:`In(8)`
        Codec parameters (:class:`inceptionn.wire.Parameters`); constant from a packet's first beat until one
        cycle after its last.
    """

    s_axis: In(AXIStream())
    m_axis: Out(AXIStream())
    cfg_e0: In(8)
    cfg_t: In(8)
    cfg_b: In(8)

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.core = core = Compressor()

        # Input register. `tready` falls for the cycle behind a packet's last beat.
        accept = self.s_axis.tvalid & self.s_axis.tready
        more, count = Signal(init=1), Signal(range(MAX_LANES // LANES))
        first = Signal(init=1)
        last = Signal()
        m.d.comb += last.eq(self.s_axis.tlast | (count == MAX_LANES // LANES - 1))
        m.d.sync += [
            self.s_axis.tready.eq(core.room & ~(accept & self.s_axis.tlast)),
            core.valid.eq(accept & more),
            core.first.eq(first),
            core.last.eq(last),
            core.burst.eq(self.s_axis.tdata),
        ]
        for i in range(LANES):
            m.d.sync += core.present[i].eq(self.s_axis.tkeep[4 * i])
        with m.If(accept):
            m.d.sync += [
                first.eq(self.s_axis.tlast),
                count.eq(Mux(self.s_axis.tlast, 0, count + more)),
                more.eq(self.s_axis.tlast | (more & ~last)),
            ]
        m.d.comb += [core.e0.eq(self.cfg_e0), core.t.eq(self.cfg_t), core.b.eq(self.cfg_b)]

        # Output: step whenever there is a block and a place in the queue for its beat.
        m.submodules.output = output = OutputQueue(slack=core.LATENCY + 4)
        wiring.connect(m, output.m_axis, wiring.flipped(self.m_axis))
        ready = Signal()
        m.d.sync += ready.eq(output.room)
        m.d.comb += core.step.eq(core.ready & ready)
        step, last = delayed(m, Cat(core.step, core.last_step), core.LATENCY, name="marks", reset=True)
        m.d.comb += [
            output.push.eq(step),
            output.push_data.tdata.eq(core.beat),
            output.push_data.tlast.eq(last),
            output.push_data.ending.eq(delayed(m, core.shape.ending, core.LATENCY, name="ending")),
        ]
        return m
