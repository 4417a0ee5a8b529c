# SPDX-License-Identifier: BSD-2-Clause
"""The receive side of the NIC: frames from the wire in, frames for the host out."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from inceptionn.wire import GROUP_LANES, LANE_BYTES

from ..codec.paper.decompressor import Decompressor
from ..control.config import EngineConfig
from ..control.counters import FrameReport
from ..frame.frame_input import FrameInput
from ..frame.header_parser import HeaderParser, ParsedHeader
from ..frame.payload_realigner import PayloadRealigner
from ..parts.axi import AXIStream
from ..parts.beat import Beat
from ..parts.delay import delayed
from ..parts.elastic_register import ElasticRegister
from ..parts.queue import PushQueue
from .receive_assembler import ReceiveAssembler
from .receive_decision import ReceiveDecision, ReceiveOrder, Shim
from .receive_layout import wire_beat


class DecompressionEngine(wiring.Component):
    """Restores the payload of frames that carry a shim and a block (wire format, section 3).

    ::

        s_axis ─► FrameInput ─┬─► delay queue (64 beats) ──────────────────────┐
                              ├─► HeaderParser ────┬─► ReceiveDecision ─ order ┤
                              └─► PayloadRealigner ┴─► Decompressor ─ payload ─┴─► ReceiveAssembler ─► m_axis

    Cut-through: a frame is held until a header check fails, its shim has arrived, or it ends. There is no
    packet buffer: the queues cover the latency of a decision, and hold the next block's tag plane.

    Throughput: one output beat per cycle while input is at hand. Latency of an idle engine, first beat
    to first beat: at most 24 cycles for a frame that passes, at most 56 plus the tag plane's beats for
    one that is restored. With 16 lanes the same, in beats twice as wide.

    Parameters
    ----------
    lanes : :class:`int`
        fp32 lanes of a beat, 8 or 16.

    Members
    -------
    s_axis : :py:`In(AXIStream(4 * lanes))`
        From the wire. ``tuser`` at ``tlast``: bad frame.
    m_axis : :py:`Out(AXIStream(4 * lanes))`
        To the host.
    config : :py:`In(EngineConfig)`
        Sampled once for a frame, in the cycle after its first beat was accepted.
    report, report_valid : :py:`Out`
        One :class:`FrameReport` per frame, in order.
    """

    def __init__(self, *, lanes: int = GROUP_LANES):
        self.width = Beat.of_groups(lanes)
        self.lanes = lanes
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
        lanes, width = self.lanes, self.width.bytes
        block_beat = data.StructLayout({"tdata": 8 * width, "tkeep": width, "tlast": 1, "lanes": 16, "b": 8})
        m.submodules.input = source = FrameInput(data_bytes=width)
        m.submodules.parser = parser = HeaderParser(transmit=False, lanes=lanes)
        delay = parser.latency + 1  # from the input register to the realigner
        # What can still come when `room` has fallen: the pipeline from the input to the queue, and two beats.
        slack = delay + ReceiveDecision.LATENCY + 7
        m.submodules.realigner = realigner = PayloadRealigner(lanes=lanes)
        m.submodules.decision = decision = ReceiveDecision(lanes=lanes)
        m.submodules.decompressor = decompressor = Decompressor(pushed=True, lanes=lanes)
        m.submodules.assembler = assembler = ReceiveAssembler(lanes=lanes)
        m.submodules.waiting = waiting = PushQueue(
            wire_beat(lanes), 64, slack, elastic=True, staged=True
        )
        m.submodules.orders = orders = PushQueue(ReceiveOrder, 64, slack)
        m.submodules.blocks = blocks = PushQueue(block_beat, 32, slack, forward=True)
        wiring.connect(m, wiring.flipped(self.s_axis), source.s_axis)
        wiring.connect(m, assembler.m_axis, wiring.flipped(self.m_axis))
        # After the Decompressor's queue, since the assembler's pop depends on all of its inputs.
        payload_shape = data.StructLayout({"tdata": 8 * width, "tuser": 1})
        m.submodules.payload_register = payload = ElasticRegister(payload_shape)
        m.d.comb += [
            source.room.eq(waiting.room & orders.room & blocks.room),
            parser.config.eq(self.config),
            parser.first.eq(source.first),
            parser.second.eq(source.second),
            parser.last.eq(source.last),
            parser.count.eq(source.count),
            parser.beat.eq(source.beat),
        ]

        # The header is there one cycle before the frame's second beat (its only one; with 16 lanes its first)
        # is at the realigner, and holds until the next frame's, one cycle after its last at the earliest.
        header = Signal(ParsedHeader, reset_less=True)
        with m.If(parser.header_valid):
            m.d.sync += header.eq(parser.header)
        valid = delayed(m, source.valid, delay, name="valid", reset=True)
        last = delayed(m, source.last, delay, name="last")
        bad = delayed(m, source.bad, delay, name="bad")
        count = delayed(m, source.count, delay, name="count")
        beat = delayed(m, source.beat, delay, name="beat")

        # The delay queue; with the last beat, whether the frame is as long as IP says.
        before = Signal(17)
        with m.If(valid):
            m.d.sync += before.eq(Mux(last, 0, Mux(before[16], before, before + width)))
        m.d.sync += [
            waiting.i.valid.eq(valid),
            waiting.i.payload.tdata.eq(beat),
            waiting.i.payload.last.eq(last),
            waiting.i.payload.bad.eq(bad),
            waiting.i.payload.short.eq(before + count < header.frame_length),
            waiting.i.payload.ending.eq(count),
        ]

        # The block, after the shim. An empty one gets a byte, which is no valid block either.
        m.d.comb += [
            realigner.load.eq(parser.header_valid & parser.clear),
            realigner.run.eq(parser.run),
            realigner.valid.eq(valid),
            realigner.last.eq(last),
            realigner.beat.eq(beat),
            decision.header.eq(header),
            decision.valid.eq(valid),
            decision.last.eq(last),
            decision.count.eq(count),
            decision.burst.eq(realigner.out_front if self.width.payload_overlaps else realigner.out_burst),
            orders.i.valid.eq(decision.order_valid),
            orders.i.payload.eq(decision.order),
        ]

        # The order comes two cycles after the shim, the block's first burst at least one: the bursts wait
        # for one more, and for a register in front of the queue. `wanted` lasts until the block's last burst.
        wanted = Signal()
        shim = Signal(Shim, reset_less=True)
        restoring = decision.order_valid & decision.order.restore
        burst_valid = delayed(m, realigner.out_valid, 1, name="burst_valid", reset=True)
        burst_last = delayed(m, realigner.out_last, 1, name="burst_last")
        burst_count = delayed(m, realigner.out_count, 1, name="burst_count")
        with m.If(restoring):
            m.d.sync += shim.eq(decision.shim)
        m.d.comb += [
            blocks.i.payload.tdata.eq(delayed(m, realigner.out_burst, 2, name="burst")),
            blocks.i.payload.lanes.eq(shim.length // LANE_BYTES),
            blocks.i.payload.b.eq(shim.b),
        ]
        m.d.sync += [
            blocks.i.valid.eq(burst_valid & (wanted | restoring)),
            blocks.i.payload.tlast.eq(burst_last),
        ]
        for i in range(width):
            m.d.sync += blocks.i.payload.tkeep[i].eq(burst_count > i)
        m.d.sync += wanted.eq((wanted | restoring) & ~(burst_valid & burst_last))

        m.d.comb += [
            decompressor.s_axis.tdata.eq(blocks.o.payload.tdata),
            decompressor.s_axis.tkeep.eq(blocks.o.payload.tkeep),
            decompressor.s_axis.tlast.eq(blocks.o.payload.tlast),
            decompressor.s_axis.tuser.eq(blocks.o.payload.lanes),
            decompressor.s_axis.tvalid.eq(blocks.o.valid),
            decompressor.cfg_b.eq(blocks.o.payload.b),
            blocks.o_room.eq(decompressor.s_axis.tready),
            assembler.order.eq(orders.o.payload),
            assembler.order_valid.eq(orders.o.valid),
            orders.o.ready.eq(assembler.order_pop),
            assembler.wire_beat.eq(waiting.o.payload),
            assembler.wire_valid.eq(waiting.o.valid),
            waiting.o.ready.eq(assembler.wire_pop),
            payload.i.valid.eq(decompressor.m_axis.tvalid),
            payload.i.payload.tdata.eq(decompressor.m_axis.tdata),
            payload.i.payload.tuser.eq(decompressor.m_axis.tuser),
            decompressor.m_axis.tready.eq(payload.i.ready),
            assembler.payload.tdata.eq(payload.o.payload.tdata),
            assembler.payload.tuser.eq(payload.o.payload.tuser),
            assembler.payload.tvalid.eq(payload.o.valid),
            payload.o.ready.eq(assembler.payload.tready),
            self.report.eq(assembler.report),
            self.report_valid.eq(assembler.report_valid),
        ]
        return m
