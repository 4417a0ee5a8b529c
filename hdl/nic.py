# SPDX-License-Identifier: BSD-2-Clause
"""The NIC's engine pair with its registers: module ``inceptionn_nic``."""

from typing import Any

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from inceptionn.wire import GROUP_LANES

from .codec.shape import USUAL, EngineShape
from .control.axi_lite import AXI4Lite
from .control.management import Management
from .engine.compression_engine import CompressionEngine
from .engine.decompression_engine import DecompressionEngine
from .parallel.parallel_engines import ENGINES, ParallelEngines
from .parts.axi import AXIStream
from .parts.top import Top
from .serial.compression_engine import CompressionEngine as SerialCompressionEngine
from .serial.decompression_engine import DecompressionEngine as SerialDecompressionEngine


def check_engines(engines: int, lanes: int = GROUP_LANES) -> None:
    """Raise ``ValueError`` unless a NIC can have ``engines`` of so many lanes per direction."""
    if engines not in ENGINES:
        raise ValueError(f"engines must be one of {', '.join(map(str, ENGINES))}, not {engines!r}")
    if engines > 1 and lanes == 1:
        raise ValueError(f"engines of one lane must be 1, not {engines!r}: take one of {GROUP_LANES} lanes")


class Nic(Top):
    """Compression engine for sent frames, decompression engine for received ones, one AXI4-Lite port.

    The paper's Fig. 8, between a NIC's DMA and its MAC. Frames run from the destination MAC address to the
    last data byte, without FCS; ``tuser`` at ``tlast`` marks a bad frame. The two directions are independent.
    Throughput and latency are the engines'; registers: ``docs/registers.md``.

    Data registers have no reset, but no output depends on their old content. After a reset (:class:`Top`) the
    transmit engine waits until its flow table is empty, 512 cycles.

    Parameters
    ----------
    shape : :class:`EngineShape`
        Of one engine.
    engines : :class:`int`
        Engines of each direction: 1, 2 or 4 (:class:`ParallelEngines`). The streams are as wide as all
        engines together; verdicts, bytes, order and registers depend on neither this number nor the lanes.
    lossy : :class:`bool`
        For sources that cannot wait, which engines of one lane take as they are: ``tready`` of ``s_axis_tx``
        and ``s_axis_rx`` is always high. Frames that are bad or find no room are dropped whole, and no
        counter of the NIC counts them.
    """

    def __init__(self, shape: EngineShape = USUAL, *, engines: int = 1, lossy: bool = False):
        check_engines(engines, shape.lanes)
        if lossy and not shape.serial:
            raise ValueError(f"a NIC that drops frames must have 1 lane, not {shape.lanes!r}")
        self.engines = engines
        self.shape = shape
        self.lossy = lossy
        stream = AXIStream(engines * shape.bytes)
        super().__init__(
            {
                "s_axis_tx": In(stream),  #: From the host.
                "m_axis_tx": Out(stream),  #: To the wire.
                "s_axis_rx": In(stream),  #: From the wire.
                "m_axis_rx": Out(stream),  #: To the host.
                "s_axil": In(AXI4Lite()),  #: The registers.
                #: If ``lossy``, for one cycle, after the last beat of ``s_axis_tx`` was accepted: a frame was
                #: dropped. Likewise for ``s_axis_rx``.
                **({"dropped_tx": Out(1), "dropped_rx": Out(1)} if lossy else {}),
            }
        )

    def _engine(self, *, transmit: bool) -> wiring.Component:
        """Make the engine of one direction, or several that behave as one."""
        if self.engines > 1:
            return ParallelEngines(self.engines, self.shape, transmit=transmit)
        if self.shape.serial:
            engine = SerialCompressionEngine if transmit else SerialDecompressionEngine
            return engine(self.shape, lossy=self.lossy)
        return (CompressionEngine if transmit else DecompressionEngine)(self.shape)

    def elaborate(self, platform: Any) -> Module:
        m, shape = Module(), self.shape
        m.submodules.management = management = Management(shape)
        m.submodules.compression_engine = compression = self._engine(transmit=True)
        m.submodules.decompression_engine = decompression = self._engine(transmit=False)
        wiring.connect(m, wiring.flipped(self.s_axil), management.s_axil)
        for source, engine, sink, port in (
            (self.s_axis_tx, compression, self.m_axis_tx, management.tx),
            (self.s_axis_rx, decompression, self.m_axis_rx, management.rx),
        ):
            wiring.connect(m, wiring.flipped(source), engine.s_axis)
            wiring.connect(m, engine.m_axis, wiring.flipped(sink))
            m.d.comb += engine.config.eq(port.config)
            if shape.bf16:
                m.d.comb += engine.bf16_tos.eq(port.bf16_tos)
            enters = source.tvalid & source.tready & source.tlast
            if self.lossy:
                ended = Signal()
                m.d.sync += ended.eq(enters)
                enters = ended & ~engine.dropped
            # A row of flip-flops, so that the engines may be placed far from the counters.
            m.d.sync += [
                port.reports.payload.eq(engine.reports.payload),
                port.reports.valid.eq(engine.reports.valid),
                port.frame_in.eq(enters),
                port.frame_out.eq(sink.tvalid & sink.tready & sink.tlast),
            ]
        if self.lossy:
            m.d.comb += [
                self.dropped_tx.eq(compression.dropped),
                self.dropped_rx.eq(decompression.dropped),
            ]
        return m
