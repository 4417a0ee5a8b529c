# SPDX-License-Identifier: BSD-2-Clause
"""The receive side of the NIC: frames from the wire in, frames for the host out."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from inceptionn.wire import GROUP_LANES, LANE_BYTES

from ..codec.codecs import PAPER, codec_of
from ..control.config import EngineConfig
from ..control.counters import frame_report
from ..frame.frame_input import FrameInput
from ..frame.header_parser import HeaderParser, ParsedHeader
from ..frame.payload_realigner import PayloadRealigner
from ..parts.axi import AXIStream
from ..parts.beat import Beat
from ..parts.delay import delayed_stream
from ..parts.elastic_register import ElasticRegister
from ..parts.pipeline import Pipeline
from ..parts.queue import PushQueue
from .receive_assembler import ReceiveAssembler
from .receive_decision import ReceiveDecision, ReceiveOrder, Shim
from .receive_layout import restored_burst, wire_beat


class DecompressionEngine(wiring.Component):
    """Restores the payload of frames that carry a shim and a block (wire format, section 3).

    ::

        s_axis ─► FrontEnd ─┬─► delay queue (64 beats) ─────┐
                            ├─► ReceiveDecision ─ order ────┤
                            └─► Decompressor ─ payload ─────┴─► ReceiveAssembler ─► m_axis

    Cut-through: a frame is held until a header check fails, its shim has arrived, or it ends. There is no
    packet buffer: the queues cover the latency of a decision, and hold the next block's tag plane.

    Throughput: one output beat per cycle while input is there. Latency of an idle engine, first beat
    to first beat: at most 24 cycles for a frame that passes, at most 56 plus the tag plane's beats for
    one that is restored. With 16 lanes the same, in beats twice as wide.

    Parameters
    ----------
    lanes : :class:`int`
        fp32 lanes of a beat, 8 or 16.
    codec : :class:`str`
        Name of the lane codec (:data:`inceptionn.hdl.codec.codecs.CODECS`).

    Members
    -------
    s_axis : :py:`In(AXIStream(4 * lanes))`
        From the wire. ``tuser`` at ``tlast``: bad frame.
    m_axis : :py:`Out(AXIStream(4 * lanes))`
        To the host.
    config : :py:`In(EngineConfig)`
        Sampled once for a frame, in the cycle after its first beat was accepted.
    reports : :py:`Out(stream.Signature(frame_report(codec), always_ready=True))`
        One per frame, in order.
    """

    def __init__(self, *, lanes: int = GROUP_LANES, codec: str = PAPER):
        self.codec = codec_of(codec)
        self.width = Beat.of_groups(lanes)
        self.lanes = lanes
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
        lanes, width = self.lanes, self.width.bytes
        m.submodules.input = source = FrameInput(data_bytes=width)
        m.submodules.parser = parser = HeaderParser(transmit=False, lanes=lanes)
        m.submodules.realigner = realigner = PayloadRealigner(lanes=lanes)
        m.submodules.decision = decision = ReceiveDecision(lanes=lanes, codec=self.codec.name)
        m.submodules.decompressor = decompressor = self.codec.decompressor(pushed=True, lanes=lanes)
        m.submodules.assembler = assembler = ReceiveAssembler(lanes=lanes, codec=self.codec.name)
        delay = parser.latency + 1  # from the input register to the realigner
        # What can still come when `room` has fallen: the pipeline from the input to the queue, and two beats.
        slack = delay + ReceiveDecision.LATENCY + 7
        block_beat = data.StructLayout({"tdata": 8 * width, "tkeep": width, "tlast": 1, "lanes": 16, "b": 8})
        m.submodules.waiting = waiting = PushQueue(
            wire_beat(lanes), 64, slack, elastic=True, in_ram={"tdata"}, staged=True
        )
        m.submodules.orders = orders = PushQueue(ReceiveOrder, 64, slack)
        m.submodules.blocks = blocks = PushQueue(block_beat, 32, slack, forward=True)
        # After the Decompressor's queue, since the assembler's `ready` depends on all of its inputs.
        m.submodules.payload_register = payload = ElasticRegister(restored_burst(lanes), in_ram={"data"})
        m.d.comb += [
            source.room.eq(waiting.room & orders.room & blocks.room),
            parser.config.eq(self.config),
        ]
        wiring.connect(m, wiring.flipped(self.s_axis), source.s_axis)
        wiring.connect(m, source.beats, parser.beats)
        beats = delayed_stream(m, source.beats, delay, name="beats")
        wiring.connect(m, beats, realigner.beats)
        wiring.connect(m, beats, decision.beats)
        wiring.connect(m, decision.orders, orders.i)
        wiring.connect(m, orders.o, assembler.orders)
        wiring.connect(m, waiting.o, assembler.beats)
        wiring.connect(m, payload.o, assembler.payload)
        wiring.connect(m, assembler.reports, wiring.flipped(self.reports))
        wiring.connect(m, assembler.m_axis, wiring.flipped(self.m_axis))

        # The header is there one cycle before the frame's second beat (its only one; with 16 lanes its first)
        # is at the realigner, and holds until the next frame's, one cycle after its last at the earliest.
        headers = parser.headers.payload
        header = Signal(ParsedHeader, reset_less=True)
        with m.If(parser.headers.valid):
            m.d.sync += header.eq(headers.header)

        # The delay queue; with the last beat, whether the frame is as long as IP says.
        beat = beats.payload
        before = Signal(17)
        with m.If(beats.valid):
            m.d.sync += before.eq(Mux(beat.last, 0, Mux(before[16], before, before + width)))
        m.d.sync += [
            waiting.i.valid.eq(beats.valid),
            waiting.i.payload.tdata.eq(beat.data),
            waiting.i.payload.last.eq(beat.last),
            waiting.i.payload.bad.eq(beat.bad),
            waiting.i.payload.short.eq(before + beat.count < header.frame_length),
            waiting.i.payload.ending.eq(beat.count),
        ]

        # The block, after the shim. An empty one gets a byte, which is not a valid block either.
        m.d.comb += [
            realigner.runs.valid.eq(parser.headers.valid & headers.clear),
            realigner.runs.payload.eq(headers.run),
            decision.header.eq(header),
            decision.front.eq(realigner.front),
        ]

        # The order comes two cycles after the shim, the block's first burst at least one: the bursts wait
        # for one more, and for a register in front of the queue. `wanted` lasts until the block's last burst.
        wanted = Signal()
        shim = Signal(Shim, reset_less=True)
        restoring = decision.orders.valid & decision.orders.payload.restore
        burst = realigner.bursts.payload
        p = Pipeline(m, "burst_", control={"valid"})
        p.stage(valid=realigner.bursts.valid, last=burst.last, count=burst.count, data=burst.data)
        with m.If(restoring):
            m.d.sync += shim.eq(decision.shim)
        m.d.sync += [
            blocks.i.valid.eq(p.valid & (wanted | restoring)),
            blocks.i.payload.tlast.eq(p.last),
            blocks.i.payload.tkeep.eq(Cat(p.count > i for i in range(width))),
            wanted.eq((wanted | restoring) & ~(p.valid & p.last)),
        ]
        p.stage()
        m.d.comb += [
            blocks.i.payload.tdata.eq(p.data),
            blocks.i.payload.lanes.eq(shim.length // LANE_BYTES),
            blocks.i.payload.b.eq(shim.b),
        ]

        m.d.comb += [
            decompressor.s_axis.tdata.eq(blocks.o.payload.tdata),
            decompressor.s_axis.tkeep.eq(blocks.o.payload.tkeep),
            decompressor.s_axis.tlast.eq(blocks.o.payload.tlast),
            decompressor.s_axis.tuser.eq(blocks.o.payload.lanes),
            decompressor.s_axis.tvalid.eq(blocks.o.valid),
            decompressor.cfg_b.eq(blocks.o.payload.b),
            blocks.o_room.eq(decompressor.s_axis.tready),
            payload.i.valid.eq(decompressor.m_axis.tvalid),
            payload.i.payload.data.eq(decompressor.m_axis.tdata),
            payload.i.payload.malformed.eq(decompressor.m_axis.tuser),
            decompressor.m_axis.tready.eq(payload.i.ready),
        ]
        return m
