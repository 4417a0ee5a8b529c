# SPDX-License-Identifier: BSD-2-Clause
"""The NIC's engine pair with its registers: module ``inceptionn_nic``."""

from typing import Any

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from inceptionn.hdl.axi import AXIStream
from inceptionn.hdl.axi_lite import AXI4Lite
from inceptionn.hdl.compression_engine import CompressionEngine
from inceptionn.hdl.decompression_engine import DecompressionEngine
from inceptionn.hdl.management import Management


class Nic(wiring.Component):
    """Compression engine on the way out, decompression engine on the way in, one AXI4-Lite port for both.

    The paper's Fig. 8, between a NIC's DMA and its MAC. Frames run from the destination MAC address to the
    last data byte, without FCS; ``tuser`` at ``tlast`` marks a bad frame. The two directions are independent.
    Throughput and latency are the engines'; registers: ``docs/registers.md``.

    A reset of one cycle suffices: data registers have none, but nothing keeps what is left in them. The
    transmit engine takes frames 1024 cycles later, when its flow table is empty.

    Members
    -------
    s_axis_tx : :py:`In(AXIStream())`
        From the host.
    m_axis_tx : :py:`Out(AXIStream())`
        To the wire.
    s_axis_rx : :py:`In(AXIStream())`
        From the wire.
    m_axis_rx : :py:`Out(AXIStream())`
        To the host.
    s_axil : :py:`In(AXI4Lite())`
    """

    s_axis_tx: In(AXIStream())
    m_axis_tx: Out(AXIStream())
    s_axis_rx: In(AXIStream())
    m_axis_rx: Out(AXIStream())
    s_axil: In(AXI4Lite())

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.management = management = Management()
        m.submodules.compression_engine = compression = CompressionEngine()
        m.submodules.decompression_engine = decompression = DecompressionEngine()
        wiring.connect(m, wiring.flipped(self.s_axil), management.s_axil)
        for source, engine, sink, port in (
            (self.s_axis_tx, compression, self.m_axis_tx, management.tx),
            (self.s_axis_rx, decompression, self.m_axis_rx, management.rx),
        ):
            wiring.connect(m, wiring.flipped(source), engine.s_axis)
            wiring.connect(m, engine.m_axis, wiring.flipped(sink))
            m.d.comb += engine.config.eq(port.config)
            # A row of flip-flops, so that the engines may lie far from the counters.
            m.d.sync += [
                port.report.eq(engine.report),
                port.report_valid.eq(engine.report_valid),
                port.frame_in.eq(source.tvalid & source.tready & source.tlast),
                port.frame_out.eq(sink.tvalid & sink.tready & sink.tlast),
            ]
        return m
