# SPDX-License-Identifier: BSD-2-Clause
"""The compressor alone, between AXI4-Streams."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from inceptionn.wire import LANE_BYTES, MAX_LANES

from ..parts.axi import AXIStream
from ..parts.output_queue import OutputQueue
from ..parts.pipeline import Pipeline
from ..parts.queue import PushQueue
from ..parts.top import Top
from .shape import USUAL, EngineShape


class StandaloneCompressor(Top):
    """A compressor alone (the paper's Fig. 9), between AXI4-Streams: one packet of fp32 in, one block out.

    Store and forward, since a block's table precedes its data. Throughput: one input beat per cycle, with 8
    lanes and one idle cycle between packets. Where blocks are longer than their packets, one output beat per
    cycle. Latency from the last input beat to the first output beat of an idle compressor: 30 cycles, with 16
    lanes 35; of the planes codec 28 and 33.

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
