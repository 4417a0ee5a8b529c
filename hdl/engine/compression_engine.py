# SPDX-License-Identifier: BSD-2-Clause
"""The transmit side of the NIC: frames from the host in, frames for the wire out."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from inceptionn.wire import FLOW_TABLE_SIZE, GROUP_LANES, LANE_BYTES, MAX_TRANSMIT_FRAME, SHIM_BYTES

from ..codec.paper.compressor import Compressor
from ..control.config import EngineConfig
from ..control.counters import FrameReport
from ..frame.flow_table import FlowKey, flow_index
from ..frame.frame_input import FrameInput
from ..frame.header_parser import HeaderParser, ParsedHeader
from ..frame.payload_realigner import PayloadRealigner
from ..parts.axi import AXIStream
from ..parts.beat import Beat
from ..parts.checksum import OnesComplementSum
from ..parts.delay import delayed
from ..parts.memory import BlockRam
from .transmit_assembler import TransmitAssembler, raw_ring_depth
from .transmit_decision import FrameRecord, TransmitDecision


class CompressionEngine(wiring.Component):
    """Replaces the payload of eligible frames by shim and block (wire format, section 3).

    ::

        s_axis ─► FrameInput ─┬────────────────────────────────► raw ring ───────────┐
                              ├─► HeaderParser ─────┬─► record ──┐                   │
                              ├─► L4 header sum ────│────────────┤                   ▼
                              └─► PayloadRealigner ─┴─► Compressor ── block ─► TransmitAssembler ─► m_axis
                                                         │ statistics                ▲
                                                         └─► TransmitDecision ─ order ┘

    Store and forward: a frame's raw copy and its block wait until its last beat has told whether it is
    compressed. Every path from the input on is a pipeline without stall; ``s_axis.tready`` is a
    register that looks at the room in the rings and queues. Frames longer than 16384 bytes pass in
    pieces of that length, so no frame is too long to pass.

    Throughput: one beat per cycle in and out, whatever the data; frames of fewer than 4 beats are taken
    in 4 cycles, with 16 lanes in 2 unless they ask the flow table. Latency of an idle engine, first beat to
    first beat: the frame's length in beats plus at most 48 cycles, with 16 lanes 56.

    Parameters
    ----------
    lanes : :class:`int`
        fp32 lanes of a beat, 8 or 16.

    Members
    -------
    s_axis : :py:`In(AXIStream(4 * lanes))`
        From the host. ``tuser`` at ``tlast``: bad frame.
    m_axis : :py:`Out(AXIStream(4 * lanes))`
        To the wire.
    config : :py:`In(EngineConfig)`
        Sampled once for a frame, in the cycle after its first beat was accepted.
    report, report_valid : :py:`Out`
        One :class:`FrameReport` per frame, in order.
    """

    def __init__(self, *, lanes: int = GROUP_LANES):
        self.width = Beat.of_groups(lanes)
        self.lanes = lanes
        self.ring_depth = raw_ring_depth(lanes)
        super().__init__(
            {
                "s_axis": In(AXIStream(self.width.bytes)),
                "m_axis": Out(AXIStream(self.width.bytes)),
                "config": In(EngineConfig),
                "report": Out(FrameReport),
                "report_valid": Out(1),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        lanes = self.lanes
        m.submodules.parser = parser = HeaderParser(transmit=True, lanes=lanes)
        m.submodules.realigner = realigner = PayloadRealigner(lanes=lanes)
        m.submodules.compressor = compressor = Compressor(statistics=True, lanes=lanes)
        m.submodules.decision = decision = TransmitDecision(lanes=lanes)
        m.submodules.input = source = FrameInput(pace=decision.pace, data_bytes=self.width.bytes)
        m.submodules.assembler = assembler = TransmitAssembler(self.ring_depth, lanes=lanes)
        m.submodules.ring = ring = BlockRam(self.width.bits, self.ring_depth)
        wiring.connect(m, wiring.flipped(self.s_axis), source.s_axis)
        wiring.connect(m, assembler.m_axis, wiring.flipped(self.m_axis))
        m.d.comb += [
            parser.config.eq(self.config),
            parser.first.eq(source.first),
            parser.second.eq(source.second),
            parser.last.eq(source.last),
            parser.count.eq(source.count),
            parser.beat.eq(source.beat),
        ]

        # Raw ring.
        level = Signal(range(self.ring_depth))
        ring_room = Signal()
        m.d.comb += [
            ring.write.eq(source.valid),
            ring.write_data.eq(source.beat),
            ring.read_address.eq(assembler.raw_address),
            assembler.raw_beat.eq(ring.read_data),
        ]
        m.d.sync += [
            ring.write_address.eq(ring.write_address + source.valid),
            level.eq(ring.write_address - assembler.raw_address),
            ring_room.eq(level < self.ring_depth - 16),
        ]
        m.d.comb += source.room.eq(ring_room & compressor.room & decision.room)

        # Payload: the parsed header arrives one cycle before the beat behind it (with 16 lanes, the frame's
        # first one) is at the realigner.
        header = parser.header
        candidate = Signal()
        m.d.comb += candidate.eq(parser.header_valid & parser.clear)
        load_delay = parser.latency + 1  # from the input register to the realigner
        beat_valid = delayed(m, source.valid, load_delay, name="beat_valid", reset=True)
        beat_last = delayed(m, source.last, load_delay, name="beat_last")
        beat = delayed(m, source.beat, load_delay, name="beat")
        m.d.comb += [
            realigner.load.eq(candidate),
            realigner.run.eq(parser.run),
            realigner.valid.eq(beat_valid),
            realigner.last.eq(beat_last),
            realigner.beat.eq(beat),
        ]
        # The codec's parameters change between two blocks: not before the previous frame's rest (two
        # cycles) has left the realigner and the two stages behind it, and before the block's first
        # burst, three cycles later. With 16 lanes, a block's first burst may follow on a rest: between them.
        block_at = Signal(7)
        m.d.comb += block_at.eq(header.payload_at + SHIM_BYTES)
        chosen = Signal(ParsedHeader, reset_less=True)
        place = Signal(len(compressor.place), reset_less=True)
        with m.If(candidate):
            m.d.sync += [chosen.eq(header), place.eq(block_at[1 : 1 + len(place)])]
        settled = realigner.LATENCY + self.width.payload_overlaps
        config = delayed(m, chosen.config.as_value(), settled, name="config")
        codec = EngineConfig(config)
        m.d.comb += [
            compressor.e0.eq(codec.e0),
            compressor.t.eq(codec.t),
            compressor.b.eq(codec.b),
            compressor.valid.eq(realigner.out_valid),
            compressor.first.eq(realigner.out_first),
            compressor.last.eq(realigner.out_last),
            compressor.burst.eq(realigner.out_burst),
            compressor.place.eq(delayed(m, place, settled, name="place")),
        ]
        for i in range(lanes):
            m.d.comb += compressor.present[i].eq(realigner.out_count > LANE_BYTES * i)

        m.d.sync += [
            decision.statistics.eq(compressor.statistics),
            decision.statistics_valid.eq(compressor.statistics_valid),
        ]
        self._record(m, source, parser, decision)
        self._sum_header(m, parser, beat_valid, beat_last, beat, decision)

        m.d.comb += [
            assembler.order.eq(decision.order),
            assembler.order_valid.eq(decision.order_valid),
            decision.order_pop.eq(assembler.order_pop),
            assembler.block_ready.eq(compressor.ready),
            compressor.step.eq(assembler.block_step),
            assembler.block_last.eq(compressor.last_step),
            assembler.block_ending.eq(compressor.shape.ending),
            compressor.drop.eq(assembler.block_drop),
            assembler.block_beat.eq(compressor.beat),
            self.report.eq(decision.report),
            self.report_valid.eq(decision.report_valid),
        ]
        return m

    def _record(
        self, m: Module, source: FrameInput, parser: HeaderParser, decision: TransmitDecision
    ) -> None:
        """At a frame's end (or a full piece): what the decision must know of it.

        The header is there one cycle before, and the next frame's one cycle later, at the earliest.
        """
        most = MAX_TRANSMIT_FRAME // self.width.bytes
        beats = Signal(range(most + 1))
        length = Signal(17)
        pieces = Signal()
        full = (beats == most - 1) & ~source.last
        ended = source.valid & source.last
        cut = source.valid & full
        with m.If(source.valid):
            m.d.sync += [
                beats.eq(Mux(source.last | full, 0, beats + 1)),
                length.eq(Mux(source.last, 0, length + self.width.bytes)),
                pieces.eq(~source.last & (pieces | full)),
            ]
        record1 = Signal(FrameRecord, reset_less=True)
        valid1 = Signal()
        m.d.sync += [
            valid1.eq(ended | cut),
            record1.partial.eq(cut),
            record1.beats.eq(beats + 1),
            record1.frame_bytes.eq(length + source.count),
            record1.bad.eq(source.bad),
            record1.overlong.eq(pieces),
        ]

        held = Signal(ParsedHeader, reset_less=True)
        index = Signal(range(FLOW_TABLE_SIZE), reset_less=True)
        key = Signal(FlowKey)
        header = parser.header
        m.d.comb += [
            key.source.eq(header.source),
            key.destination.eq(header.destination),
            key.source_port.eq(header.source_port),
            key.destination_port.eq(header.destination_port),
        ]
        with m.If(parser.header_valid):
            m.d.sync += [held.eq(header), index.eq(flow_index(key))]

        wait = parser.latency  # the header shows then, and is held one cycle later
        late = delayed(m, record1.as_value(), wait, name="record")
        view = FrameRecord(late)
        m.d.sync += [
            decision.record_valid.eq(delayed(m, valid1, wait, name="record_valid", reset=True)),
            decision.record.eq(view),
            decision.record.verdict.eq(held.verdict),
            decision.record.short.eq(view.frame_bytes < held.frame_length),
            decision.record.tcp.eq(held.tcp),
            decision.record.vlan.eq(held.vlan),
            decision.record.payload_at.eq(held.payload_at),
            decision.record.total_length.eq(held.total_length),
            decision.record.payload_length.eq(held.payload_length),
            decision.record.ip_checksum.eq(held.ip_checksum),
            decision.record.checksum.eq(held.checksum),
            decision.record.key.source.eq(held.source),
            decision.record.key.destination.eq(held.destination),
            decision.record.key.source_port.eq(held.source_port),
            decision.record.key.destination_port.eq(held.destination_port),
            decision.record.index.eq(index),
            decision.record.phase.eq(held.phase),
            decision.record.b.eq(held.config.b),
        ]

    def _sum_header(
        self,
        m: Module,
        parser: HeaderParser,
        valid: Signal,
        last: Signal,
        beat: Signal,
        decision: TransmitDecision,
    ) -> None:
        """Sum of the TCP or UDP header, in beats two to four, or the first two."""
        m.submodules.header_sum = header_sum = OnesComplementSum(lanes=self.lanes)
        # Words count from the beat on in which the header sum begins. The comparisons are made when the
        # header is known, so that a word waits for its beat's number alone.
        words = self.width.words
        skipped = self.width.parsed_beat
        beats = 4 if skipped else 2  # in which a header may lie
        most = (beats - skipped) * words
        tcp_at = 17 - skipped * words
        start = Signal(range(tcp_at + 3))
        stop = Signal(6)
        wanted = Signal(most, reset_less=True)
        m.d.comb += [
            start.eq(Mux(parser.header.vlan, tcp_at + 2, tcp_at)),
            stop.eq(parser.header.payload_at[1:] - skipped * words),
        ]
        with m.If(parser.header_valid):
            m.d.sync += [wanted[word].eq((word >= start) & (word < stop)) for word in range(most)]
        number = Signal(beats, init=1)  # one-hot: the beat; none behind those
        with m.If(valid):
            m.d.sync += number.eq(Mux(last, 1, number << 1))
        masked = Signal(16 * words, reset_less=True)
        for i in range(words):
            inside = (wanted[i::words] & number[skipped:]).any()
            m.d.sync += masked.word_select(i, 16).eq(Mux(inside, beat.word_select(i, 16), 0))
        # A sum ends with the last of these beats or the frame, whichever is first.
        done = Signal()
        finished = Signal()
        m.d.comb += done.eq(valid & ~finished & (last | number[-1]))
        with m.If(valid):
            m.d.sync += finished.eq(~last & (finished | number[-1]))
        m.d.comb += [
            header_sum.valid.eq(delayed(m, valid, 1, name="sum_valid", reset=True)),
            header_sum.last.eq(delayed(m, done, 1, name="sum_last", reset=True)),
            header_sum.beat.eq(masked),
            decision.header_sum.eq(header_sum.sum),
            decision.header_sum_valid.eq(header_sum.sum_valid),
        ]
