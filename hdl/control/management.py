# SPDX-License-Identifier: BSD-2-Clause
"""The register bank and both engines' counters, on the NIC's AXI4-Lite port."""

from typing import Any

from amaranth.hdl import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ..codec.shape import USUAL, EngineShape
from .axi_lite import AXI4Lite
from .config import EngineConfig
from .counters import FrameCounters, frame_report
from .register_bank import RegisterBank


class EngineManagement(wiring.Signature):
    """Interface of the management to one engine of this shape, seen from the management."""

    def __init__(self, shape: EngineShape = USUAL) -> None:
        self.shape = shape
        super().__init__(
            {
                "config": Out(EngineConfig),  #: The engine's settings.
                **({"bf16_tos": Out(8)} if shape.bf16 else {}),  #: With ``bf16``: likewise.
                #: One per frame.
                "reports": In(stream.Signature(frame_report(shape), always_ready=True)),
                "frame_in": In(1),  #: The last beat of a frame enters in this cycle.
                "frame_out": In(1),  #: The last beat of a frame leaves in this cycle.
            }
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EngineManagement) and self.shape == other.shape

    def __repr__(self) -> str:
        return f"EngineManagement({self.shape!r})"


class Management(wiring.Component):
    """Registers and counters of the NIC; see :class:`RegisterBank` and :class:`FrameCounters`.

    Inputs of ``tx`` and ``rx`` go directly into flip-flops; outputs come directly from them.
    """

    def __init__(self, shape: EngineShape = USUAL):
        self.shape = shape
        engine = Out(EngineManagement(shape))
        super().__init__(
            {
                "s_axil": In(AXI4Lite()),  #: The registers.
                "tx": engine,  #: To the transmit engine.
                "rx": engine,  #: To the receive engine.
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.registers = registers = RegisterBank(self.shape)
        m.submodules.tx_counters = tx_counters = FrameCounters("tx", self.shape)
        m.submodules.rx_counters = rx_counters = FrameCounters("rx", self.shape)
        self.probes = {"registers": registers, "tx_counters": tx_counters, "rx_counters": rx_counters}
        wiring.connect(m, wiring.flipped(self.s_axil), registers.s_axil)
        for counters, read, engine, config in (
            (tx_counters, registers.tx_counters, self.tx, registers.tx_config),
            (rx_counters, registers.rx_counters, self.rx, registers.rx_config),
        ):
            wiring.connect(m, counters.read, read)
            wiring.connect(m, wiring.flipped(engine.reports), counters.reports)
            m.d.comb += [
                counters.clear.eq(registers.clear),
                counters.frame_in.eq(engine.frame_in),
                counters.frame_out.eq(engine.frame_out),
                engine.config.eq(config),
                *([engine.bf16_tos.eq(registers.bf16_tos)] if self.shape.bf16 else []),
            ]
        return m
