# SPDX-License-Identifier: BSD-2-Clause
"""The register bank and both engines' counters, on the NIC's AXI4-Lite port."""

from typing import Any

from amaranth.hdl import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ..codec.codecs import PAPER
from .axi_lite import AXI4Lite
from .config import EngineConfig
from .counters import FrameCounters, frame_report
from .register_bank import RegisterBank


class EngineManagement(wiring.Signature):
    """Interface of the management to one engine, seen from the management.

    Parameters
    ----------
    codec : :class:`str`
        Name of the lane codec (:data:`inceptionn.hdl.codec.codecs.CODECS`).
    half : :class:`bool`
        The engine has bf16 lanes, too.
    """

    def __init__(self, codec: str = PAPER, half: bool = False) -> None:
        self.codec = codec
        self.half = half
        super().__init__(
            {
                "config": Out(EngineConfig),  #: The engine's settings.
                **({"bf16_tos": Out(8)} if half else {}),  #: With ``half``: likewise.
                #: One per frame.
                "reports": In(stream.Signature(frame_report(codec, half), always_ready=True)),
                "frame_in": In(1),  #: The last beat of a frame enters in this cycle.
                "frame_out": In(1),  #: The last beat of a frame leaves in this cycle.
            }
        )

    def __eq__(self, other: object) -> bool:
        same = isinstance(other, EngineManagement)
        return same and (self.codec, self.half) == (other.codec, other.half)

    def __repr__(self) -> str:
        return f"EngineManagement({self.codec!r}, {self.half!r})"


class Management(wiring.Component):
    """Registers and counters of the NIC; see :class:`RegisterBank` and :class:`FrameCounters`.

    Inputs of ``tx`` and ``rx`` go directly into flip-flops; outputs come directly from them.

    Parameters
    ----------
    codec : :class:`str`
        Name of the lane codec (:data:`inceptionn.hdl.codec.codecs.CODECS`).
    half : :class:`bool`
        The engines have bf16 lanes, too.
    """

    def __init__(self, *, codec: str = PAPER, half: bool = False):
        self.codec = codec
        self.has_half = half
        engine = Out(EngineManagement(codec, half))
        super().__init__(
            {
                "s_axil": In(AXI4Lite()),  #: The registers.
                "tx": engine,  #: To the transmit engine.
                "rx": engine,  #: To the receive engine.
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.registers = registers = RegisterBank(codec=self.codec, half=self.has_half)
        m.submodules.tx_counters = tx_counters = FrameCounters("tx", codec=self.codec, half=self.has_half)
        m.submodules.rx_counters = rx_counters = FrameCounters("rx", codec=self.codec, half=self.has_half)
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
                *([engine.bf16_tos.eq(registers.bf16_tos)] if self.has_half else []),
            ]
        return m
