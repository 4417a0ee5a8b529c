# SPDX-License-Identifier: BSD-2-Clause
"""The decompressor alone, between AXI4-Streams."""

from typing import Any

from amaranth.hdl import Cat, Module
from amaranth.lib.wiring import In, Out

from inceptionn.wire import LANE_BYTES

from ..parts.axi import AXIStream
from ..parts.top import Top
from .shape import USUAL, EngineShape


class StandaloneDecompressor(Top):
    """A decompressor alone (the paper's Fig. 10), between AXI4-Streams: one block in, one packet of fp32 out.

    Every block gives one packet, of as many bursts as :class:`Decompressor` says. A block with an *n* of 0 or
    above 2304 is malformed and yields one full burst. Throughput and latency are the Decompressor's.
    """

    def __init__(self, shape: EngineShape = USUAL):
        self.shape = shape
        super().__init__(
            {
                #: Blocks, one per packet; ``tuser`` on the first beat: their lanes *n*, or pairs of bf16
                #: lanes. ``tready`` does not depend on ``tvalid`` and is low only when a buffer fills up.
                "s_axis": In(AXIStream(self.shape.bytes, 16)),
                #: ``tkeep`` of the last beat has four bits per present lane. ``tuser = 1`` at ``tlast``:
                #: malformed block.
                "m_axis": Out(AXIStream(self.shape.bytes, 1)),
                "cfg_b": In(8),  #: Byte 3 of the shim; read with every block's first beat.
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.core = core = self.shape.codec.decompressor(self.shape)
        beat, burst = core.beats.payload, core.bursts.payload
        m.d.comb += [
            self.s_axis.tready.eq(core.room),
            core.beats.valid.eq(self.s_axis.tvalid & core.room),
            beat.data.eq(self.s_axis.tdata),
            beat.keep.eq(self.s_axis.tkeep),
            beat.last.eq(self.s_axis.tlast),
            beat.lanes.eq(self.s_axis.tuser),
            beat.base.eq(self.cfg_b),
            self.m_axis.tdata.eq(burst.lanes),
            self.m_axis.tkeep.eq(Cat(lane.replicate(LANE_BYTES) for lane in burst.present)),
            self.m_axis.tlast.eq(burst.last),
            self.m_axis.tuser.eq(burst.fault),
            self.m_axis.tvalid.eq(core.bursts.valid),
            core.bursts.ready.eq(self.m_axis.tready),
        ]
        return m
