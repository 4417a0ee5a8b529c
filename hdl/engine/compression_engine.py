# SPDX-License-Identifier: BSD-2-Clause
"""The transmit side of the NIC: frames from the host in, frames for the wire out."""

from typing import Any

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from inceptionn.wire import GROUP_LANES, LANE_BYTES, SHIM_BYTES

from ..codec.codecs import PAPER, codec_of
from ..control.config import EngineConfig
from ..control.counters import frame_report
from ..frame.front_end import FrontEnd
from ..frame.header_parser import ParsedHeader
from ..frame.header_sum import HeaderSum
from ..frame.payload_realigner import PayloadRealigner
from ..parts.axi import AXIStream
from ..parts.beat import Beat
from ..parts.pipeline import Pipeline
from .frame_recorder import FrameRecorder
from .raw_ring import RawRing
from .transmit_assembler import TransmitAssembler
from .transmit_decision import TransmitDecision


class CompressionEngine(wiring.Component):
    """Replaces the payload of eligible frames by shim and block (wire format, section 3).

    ::

        s_axis ─► FrontEnd ─┬─► RawRing ────────────────────────────────────────┐
                            ├─► FrameRecorder ─ record ─┐                       │
                            ├─► HeaderSum ─ sum ────────┼─► TransmitDecision ─┐ │
                            │              statistics ──┘                order│ │
                            │                  │                              ▼ ▼
                            └─► Compressor ────┴─ block ───────────► TransmitAssembler ─► m_axis

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
    """

    def __init__(self, *, lanes: int = GROUP_LANES, codec: str = PAPER):
        self.codec = codec_of(codec)
        self.width = Beat.of_groups(lanes)
        self.lanes = lanes
        super().__init__(
            {
                #: From the host. ``tuser`` at ``tlast``: bad frame.
                "s_axis": In(AXIStream(self.width.bytes)),
                "m_axis": Out(AXIStream(self.width.bytes)),  #: To the wire.
                #: Sampled once for a frame, in the cycle after its first beat was accepted.
                "config": In(EngineConfig),
                #: One per frame, in order.
                "reports": Out(stream.Signature(frame_report(codec), always_ready=True)),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        lanes, codec = self.lanes, self.codec.name
        m.submodules.decision = decision = TransmitDecision(lanes=lanes, codec=codec)
        m.submodules.front = front = FrontEnd(transmit=True, pace=decision.pace, lanes=lanes)
        m.submodules.recorder = recorder = FrameRecorder(lanes=lanes, codec=codec)
        m.submodules.header_sum = header_sum = HeaderSum(lanes=lanes)
        m.submodules.compressor = compressor = self.codec.compressor(statistics=True, lanes=lanes)
        m.submodules.ring = ring = RawRing(lanes=lanes)
        m.submodules.assembler = assembler = TransmitAssembler(lanes=lanes, codec=codec)
        wiring.connect(m, wiring.flipped(self.s_axis), front.s_axis)
        wiring.connect(m, front.beats, recorder.beats)
        wiring.connect(m, front.headers, recorder.headers)
        wiring.connect(m, front.late_beats, header_sum.beats)
        wiring.connect(m, front.headers, header_sum.headers)
        wiring.connect(m, recorder.records, decision.records)
        wiring.connect(m, header_sum.sums, decision.header_sums)
        wiring.connect(m, decision.orders, assembler.orders)
        wiring.connect(m, decision.reports, wiring.flipped(self.reports))
        wiring.connect(m, compressor.blocks, assembler.blocks)
        wiring.connect(m, assembler.m_axis, wiring.flipped(self.m_axis))
        m.d.comb += [
            front.config.eq(self.config),
            front.room.eq(ring.room & compressor.room & decision.room),
            ring.beats.valid.eq(front.beats.valid),
            ring.beats.payload.eq(front.beats.payload.data),
            ring.address.eq(assembler.raw_address),
            assembler.raw_beat.eq(ring.beat),
        ]
        m.d.sync += [
            decision.statistics.payload.eq(compressor.statistics.payload),
            decision.statistics.valid.eq(compressor.statistics.valid),
        ]
        self._compress(m, front, compressor)
        return m

    def _compress(self, m: Module, front: FrontEnd, compressor: Any) -> None:
        """Give the compressor the payloads of clear frames, with their frames' settings."""
        headers = front.headers.payload
        block_at = Signal(7)
        m.d.comb += block_at.eq(headers.header.payload_at + SHIM_BYTES)
        bursts = compressor.bursts.payload
        chosen = Signal(ParsedHeader, reset_less=True)
        place = Signal.like(bursts.place, reset_less=True)
        with m.If(front.headers.valid & headers.clear):
            m.d.sync += [chosen.eq(headers.header), place.eq(block_at[1 : 1 + len(place)])]
        # The codec's parameters change between two blocks: not before the previous frame's rest (two
        # cycles) has left the realigner and the two stages after it, and before the block's first
        # burst, three cycles later. With 16 lanes, a block's first burst may follow on a rest: between them.
        p = Pipeline(m, "settled_")
        p.let(config=chosen.config, place=place)
        p.until(PayloadRealigner.LATENCY + self.width.payload_overlaps)
        burst = front.bursts.payload
        m.d.comb += [
            compressor.parameters.eq(Cat(p.config.e0, p.config.t, p.config.b)),
            compressor.bursts.valid.eq(front.bursts.valid),
            bursts.first.eq(burst.first),
            bursts.last.eq(burst.last),
            bursts.lanes.eq(burst.data),
            bursts.present.eq(Cat(burst.count > LANE_BYTES * i for i in range(self.lanes))),
            bursts.place.eq(p.place),
        ]
