# SPDX-License-Identifier: BSD-2-Clause
"""Several packet engines in parallel that behave as one wider engine."""

from typing import Any

from amaranth.hdl import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ..codec.shape import USUAL, EngineShape
from ..control.config import EngineConfig
from ..control.counters import frame_report
from ..engine.compression_engine import CompressionEngine
from ..engine.decompression_engine import DecompressionEngine
from ..parts.axi import AXIStream
from .dispatch_queue import check_engines
from .packet_collect import PacketCollect
from .packet_dispatch import PacketDispatch
from .report_merge import ReportMerge

ENGINES = (1, 2, 4)
"""The possible numbers of engines of a direction. The streams are that number of bursts wide."""


class ParallelEngines(wiring.Component):
    """``engines`` engines of one direction on a stream that is ``engines`` bursts wide.

    ::

                                  ┌► queue ─► engine 0 ─► queue ─┐
        s_axis ─► PacketDispatch ─┤    ...       ...       ...   ├─► PacketCollect ─► m_axis
                                  └► queue ─► engine n ─► queue ─┘
                                                 └────────► ReportMerge ─► report

    From outside it is one engine: a frame's bytes, verdict and report are those of a single engine that sees
    all frames in order. Frames and reports leave in the order in which the frames came.

    Throughput: one word of ``engines`` bursts per cycle if many frames are in flight. A frame alone passes at
    one engine's rate. Latency: an engine's, about 30 cycles, and one cycle for each burst of the frame, which
    waits after the engine until it is whole.

    Parameters
    ----------
    transmit : :class:`bool`
        Compression engines, whose flow tables the dispatcher keeps equal; else decompression engines.
    engines : :class:`int`
        2 or 4.
    shape : :class:`EngineShape`
    """

    def __init__(self, engines: int, shape: EngineShape = USUAL, *, transmit: bool):
        check_engines(engines)
        data_bytes = engines * shape.bytes
        self.engines = engines
        self.transmit = transmit
        self.shape = shape
        super().__init__(
            {
                "s_axis": In(AXIStream(data_bytes)),  #: Frames in.
                "m_axis": Out(AXIStream(data_bytes)),  #: Frames out, in the same order.
                "config": In(EngineConfig),  #: As of the engine.
                **({"bf16_tos": In(8)} if shape.bf16 else {}),  #: As of the engine.
                #: As of the engine.
                "reports": Out(stream.Signature(frame_report(shape), always_ready=True)),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.dispatch = dispatch = PacketDispatch(self.engines, self.shape, flows=self.transmit)
        m.submodules.collect = collect = PacketCollect(self.engines, self.shape)
        m.submodules.merge = merge = ReportMerge(self.engines, self.shape)
        wiring.connect(m, wiring.flipped(self.s_axis), dispatch.s_axis)
        wiring.connect(m, collect.m_axis, wiring.flipped(self.m_axis))
        wiring.connect(m, dispatch.frames, collect.frames)
        wiring.connect(m, dispatch.frames, merge.frames)
        wiring.connect(m, merge.reports, wiring.flipped(self.reports))
        m.d.comb += dispatch.config.eq(self.config)
        if self.shape.bf16:
            m.d.comb += dispatch.bf16_tos.eq(self.bf16_tos)
        for i in range(self.engines):
            kind = CompressionEngine if self.transmit else DecompressionEngine
            engine = kind(self.shape)
            m.submodules[f"engine{i}"] = engine
            wiring.connect(m, dispatch.m_axis[i], engine.s_axis)
            wiring.connect(m, engine.m_axis, collect.s_axis[i])
            wiring.connect(m, engine.reports, merge.engine_reports[i])
            m.d.comb += [
                engine.config.eq(dispatch.engine_config[i]),
                *([engine.bf16_tos.eq(dispatch.engine_bf16_tos[i])] if self.shape.bf16 else []),
                dispatch.collected[i].eq(collect.collected[i]),
                dispatch.reported[i].eq(merge.reported[i]),
            ]
        return m
