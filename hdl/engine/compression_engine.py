# SPDX-License-Identifier: BSD-2-Clause
"""The transmit side of the NIC: frames from the host in, frames for the wire out."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from inceptionn.wire import FLOW_TABLE_SIZE, GROUP_LANES, LANE_BYTES, MAX_TRANSMIT_FRAME, SHIM_BYTES

from ..codec.codecs import PAPER, codec_of
from ..control.config import EngineConfig
from ..control.counters import frame_report
from ..frame.flow_table import FlowKey, flow_index
from ..frame.frame_input import FrameInput
from ..frame.header_fields import L4, VLAN
from ..frame.header_parser import HeaderParser, ParsedHeader
from ..frame.payload_realigner import PayloadRealigner
from ..parts.axi import AXIStream
from ..parts.beat import Beat
from ..parts.checksum import OnesComplementSum
from ..parts.delay import delayed_stream
from ..parts.memory import BlockRam
from ..parts.pipeline import Pipeline
from .transmit_assembler import TransmitAssembler, raw_ring_depth
from .transmit_decision import TransmitDecision


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
    compressed. Nothing stalls after the input register: ``s_axis.tready`` is a register that follows the room
    in the rings and queues. A frame of more than 16384 bytes passes in pieces of that length.

    Throughput: one beat per cycle in and out, whatever the data. A frame of fewer than 4 beats takes 4
    cycles, with 16 lanes 2 unless it is looked up in the flow table. Latency of an idle engine, first beat to
    first beat: the frame's length in beats plus at most 48 cycles, with 16 lanes 56.

    Parameters
    ----------
    lanes : :class:`int`
        fp32 lanes of a beat, 8 or 16.
    codec : :class:`str`
        Name of the lane codec (:data:`inceptionn.hdl.codec.codecs.CODECS`).

    Members
    -------
    s_axis : :py:`In(AXIStream(4 * lanes))`
        From the host. ``tuser`` at ``tlast``: bad frame.
    m_axis : :py:`Out(AXIStream(4 * lanes))`
        To the wire.
    config : :py:`In(EngineConfig)`
        Sampled once for a frame, in the cycle after its first beat was accepted.
    reports : :py:`Out(stream.Signature(frame_report(codec), always_ready=True))`
        One per frame, in order.
    """

    def __init__(self, *, lanes: int = GROUP_LANES, codec: str = PAPER):
        self.codec = codec_of(codec)
        self.width = Beat.of_groups(lanes)
        self.lanes = lanes
        self.ring_depth = raw_ring_depth(lanes)
        super().__init__(
            {
                "s_axis": In(AXIStream(self.width.bytes)),
                "m_axis": Out(AXIStream(self.width.bytes)),
                "config": In(EngineConfig),
                "reports": Out(stream.Signature(frame_report(codec), always_ready=True)),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        lanes = self.lanes
        m.submodules.parser = parser = HeaderParser(transmit=True, lanes=lanes)
        m.submodules.realigner = realigner = PayloadRealigner(lanes=lanes)
        m.submodules.compressor = compressor = self.codec.compressor(statistics=True, lanes=lanes)
        m.submodules.decision = decision = TransmitDecision(lanes=lanes, codec=self.codec.name)
        m.submodules.input = source = FrameInput(pace=decision.pace, data_bytes=self.width.bytes)
        m.submodules.assembler = assembler = TransmitAssembler(
            self.ring_depth, lanes=lanes, codec=self.codec.name
        )
        m.submodules.ring = ring = BlockRam(self.width.bits, self.ring_depth)
        beats = delayed_stream(m, source.beats, parser.latency + 1, name="beats")
        wiring.connect(m, wiring.flipped(self.s_axis), source.s_axis)
        wiring.connect(m, source.beats, parser.beats)
        wiring.connect(m, beats, realigner.beats)
        wiring.connect(m, compressor.blocks, assembler.blocks)
        wiring.connect(m, decision.orders, assembler.orders)
        wiring.connect(m, decision.reports, wiring.flipped(self.reports))
        wiring.connect(m, assembler.m_axis, wiring.flipped(self.m_axis))
        m.d.comb += parser.config.eq(self.config)

        # Raw ring.
        level = Signal(range(self.ring_depth))
        ring_room = Signal()
        m.d.comb += [
            ring.write.eq(source.beats.valid),
            ring.write_data.eq(source.beats.payload.data),
            ring.read_address.eq(assembler.raw_address),
            assembler.raw_beat.eq(ring.read_data),
        ]
        m.d.sync += [
            ring.write_address.eq(ring.write_address + source.beats.valid),
            level.eq(ring.write_address - assembler.raw_address),
            ring_room.eq(level < self.ring_depth - 16),
        ]
        m.d.comb += source.room.eq(ring_room & compressor.room & decision.room)

        # Payload: the parsed header is there one cycle before the frame's second beat (with 16 lanes, its
        # first) is at the realigner.
        headers = parser.headers.payload
        header = headers.header
        candidate = Signal()
        m.d.comb += [
            candidate.eq(parser.headers.valid & headers.clear),
            realigner.runs.valid.eq(candidate),
            realigner.runs.payload.eq(headers.run),
        ]
        # The codec's parameters change between two blocks: not before the previous frame's rest (two
        # cycles) has left the realigner and the two stages after it, and before the block's first
        # burst, three cycles later. With 16 lanes, a block's first burst may follow on a rest: between them.
        block_at = Signal(7)
        m.d.comb += block_at.eq(header.payload_at + SHIM_BYTES)
        chosen = Signal(ParsedHeader, reset_less=True)
        bursts = compressor.bursts.payload
        place = Signal.like(bursts.place, reset_less=True)
        with m.If(candidate):
            m.d.sync += [chosen.eq(header), place.eq(block_at[1 : 1 + len(place)])]
        p = Pipeline(m, "settled_")
        p.let(config=chosen.config, place=place)
        p.until(realigner.LATENCY + self.width.payload_overlaps)
        codec = p.config
        burst = realigner.bursts.payload
        m.d.comb += [
            compressor.parameters.eq(Cat(codec.e0, codec.t, codec.b)),
            compressor.bursts.valid.eq(realigner.bursts.valid),
            bursts.first.eq(burst.first),
            bursts.last.eq(burst.last),
            bursts.lanes.eq(burst.data),
            bursts.present.eq(Cat(burst.count > LANE_BYTES * i for i in range(lanes))),
            bursts.place.eq(p.place),
        ]

        m.d.sync += [
            decision.statistics.payload.eq(compressor.statistics.payload),
            decision.statistics.valid.eq(compressor.statistics.valid),
        ]
        self._record(m, source.beats, parser, decision)
        self._sum_header(m, parser, beats, decision)
        return m

    def _record(
        self, m: Module, beats_in: stream.Interface, parser: HeaderParser, decision: TransmitDecision
    ) -> None:
        """At a frame's end (or a full piece): what the decision must know of it.

        The header is there one cycle before, and the next frame's one cycle later, at the earliest.
        """
        valid, beat = beats_in.valid, beats_in.payload
        most = MAX_TRANSMIT_FRAME // self.width.bytes
        beats = Signal(range(most + 1))
        length = Signal(17)
        pieces = Signal()
        full = (beats == most - 1) & ~beat.last
        ended = valid & beat.last
        cut = valid & full
        with m.If(valid):
            m.d.sync += [
                beats.eq(Mux(beat.last | full, 0, beats + 1)),
                length.eq(Mux(beat.last, 0, length + self.width.bytes)),
                pieces.eq(~beat.last & (pieces | full)),
            ]
        p = Pipeline(m, control={"valid"})
        p.stage(
            valid=ended | cut,
            partial=cut,
            beats=(beats + 1)[:10],
            frame_bytes=(length + beat.count)[:17],
            bad=beat.bad,
            overlong=pieces,
        )

        held = Signal(ParsedHeader, reset_less=True)
        index = Signal(range(FLOW_TABLE_SIZE), reset_less=True)
        key = Signal(FlowKey)
        header = parser.headers.payload.header
        m.d.comb += [
            key.source.eq(header.source),
            key.destination.eq(header.destination),
            key.source_port.eq(header.source_port),
            key.destination_port.eq(header.destination_port),
        ]
        with m.If(parser.headers.valid):
            m.d.sync += [held.eq(header), index.eq(flow_index(key))]

        p.until(1 + parser.latency)  # the header is held
        record = decision.records.payload
        m.d.sync += [
            decision.records.valid.eq(p.valid),
            record.verdict.eq(held.verdict),
            record.partial.eq(p.partial),
            record.beats.eq(p.beats),
            record.frame_bytes.eq(p.frame_bytes),
            record.bad.eq(p.bad),
            record.overlong.eq(p.overlong),
            record.short.eq(p.frame_bytes < held.frame_length),
            record.tcp.eq(held.tcp),
            record.vlan.eq(held.vlan),
            record.payload_at.eq(held.payload_at),
            record.total_length.eq(held.total_length),
            record.payload_length.eq(held.payload_length),
            record.ip_checksum.eq(held.ip_checksum),
            record.checksum.eq(held.checksum),
            record.key.source.eq(held.source),
            record.key.destination.eq(held.destination),
            record.key.source_port.eq(held.source_port),
            record.key.destination_port.eq(held.destination_port),
            record.index.eq(index),
            record.phase.eq(held.phase),
            record.b.eq(held.config[self.codec.spec.number]),
        ]

    def _sum_header(
        self,
        m: Module,
        parser: HeaderParser,
        beats: stream.Interface,
        decision: TransmitDecision,
    ) -> None:
        """Sum of the TCP or UDP header, in beats two to four, or the first two."""
        m.submodules.header_sum = header_sum = OnesComplementSum(lanes=self.lanes)
        wiring.connect(m, header_sum.sums, decision.header_sums)
        header, valid, last = parser.headers.payload.header, beats.valid, beats.payload.last
        # Words count from the beat on in which the header sum begins. The comparisons are made when the
        # header is known, so that a word waits for its beat's number alone.
        words = self.width.words
        skipped = self.width.parsed_beat
        span = 4 if skipped else 2  # beats in which a header may lie
        most = (span - skipped) * words
        tcp_at = L4 // 2 - skipped * words
        tag = VLAN.size // 2
        start = Signal(range(tcp_at + tag + 1))
        stop = Signal(6)
        wanted = Signal(most, reset_less=True)
        m.d.comb += [
            start.eq(Mux(header.vlan, tcp_at + tag, tcp_at)),
            stop.eq(header.payload_at[1:] - skipped * words),
        ]
        with m.If(parser.headers.valid):
            m.d.sync += [wanted[word].eq((word >= start) & (word < stop)) for word in range(most)]
        number = Signal(span, init=1)  # one-hot: the beat; none after those
        with m.If(valid):
            m.d.sync += number.eq(Mux(last, 1, number << 1))
        # A sum ends with the last of these beats or the frame, whichever is first.
        done = Signal()
        finished = Signal()
        m.d.comb += done.eq(valid & ~finished & (last | number[-1]))
        with m.If(valid):
            m.d.sync += finished.eq(~last & (finished | number[-1]))
        inside = [(wanted[i::words] & number[skipped:]).any() for i in range(words)]
        beat = beats.payload.data
        p = Pipeline(m, "sum_", control={"valid", "last"})
        p.stage(
            valid=valid,
            last=done,
            beat=Cat(Mux(inside[i], beat.word_select(i, 16), 0) for i in range(words)),
        )
        m.d.comb += [
            header_sum.valid.eq(p.valid),
            header_sum.last.eq(p.last),
            header_sum.beat.eq(p.beat),
        ]
