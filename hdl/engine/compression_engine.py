# SPDX-License-Identifier: BSD-2-Clause
"""The transmit side of the NIC: frames from the host in, frames for the wire out."""

from typing import Any

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring

from inceptionn.wire import LANE_BYTES, SHIM_BYTES

from ..frame.front_end import FrontEnd
from ..frame.header_judge import ParsedHeader
from ..frame.header_sum import HeaderSum
from ..frame.payload_realigner import PayloadRealigner
from ..parts.pipeline import Pipeline
from .engine import Engine
from .frame_recorder import FrameRecorder
from .raw_ring import RawRing
from .transmit_assembler import TransmitAssembler
from .transmit_decision import TransmitDecision


class CompressionEngine(Engine):
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
    in the rings and queues. Two kinds of frames leave in pieces, before they have ended
    (:class:`FrameRecorder`): those of more than 16384 bytes, and, if no older frame waits, those that a
    header check fails. The latter leave without a gap if they come without one.

    Throughput: one beat per cycle in and out, whatever the data. A frame of fewer than 4 beats takes 4
    cycles, with 16 lanes 2 unless it is looked up in the flow table; a frame that changes an entry of the
    table takes 5. Latency of an idle engine, first beat to first beat: 30 cycles if a header check fails;
    else the frame's length in beats plus at most 48 cycles, with 16 lanes 56.
    """

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        shape = self.shape
        m.submodules.decision = decision = TransmitDecision(shape)
        m.submodules.front = front = FrontEnd(shape, transmit=True, pace=decision.pace)
        m.submodules.recorder = recorder = FrameRecorder(shape)
        m.submodules.header_sum = header_sum = HeaderSum(shape)
        m.submodules.compressor = compressor = shape.codec.compressor(shape, statistics=True)
        m.submodules.ring = ring = RawRing(shape)
        m.submodules.assembler = assembler = TransmitAssembler(shape)
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
            *([front.bf16_tos.eq(self.bf16_tos)] if self.shape.bf16 else []),
            front.room.eq(ring.room & compressor.room & decision.room),
            ring.beats.valid.eq(front.beats.valid),
            ring.beats.payload.eq(front.beats.payload.data),
            ring.address.eq(assembler.raw_address),
            assembler.raw_beat.eq(ring.beat),
        ]
        m.d.sync += [
            recorder.taken.eq(decision.orders.valid & decision.orders.ready),
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
        p = Pipeline(m, "delayed_")
        p.let(config=chosen.config, place=place, bf16=chosen.bf16)
        p.until(PayloadRealigner.LATENCY + self.shape.payload_overlaps)
        burst = front.bursts.payload
        e0 = Cat(p.config.e0[:7], p.bf16) if self.shape.bf16 else p.config.e0
        m.d.comb += [
            compressor.parameters.eq(Cat(e0, p.config.t, p.config.b)),
            compressor.bursts.valid.eq(front.bursts.valid),
            bursts.first.eq(burst.first),
            bursts.last.eq(burst.last),
            bursts.lanes.eq(burst.data),
            bursts.present.eq(Cat(burst.count > LANE_BYTES * i for i in range(self.shape.lanes))),
            bursts.place.eq(p.place),
        ]
