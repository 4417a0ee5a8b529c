# SPDX-License-Identifier: BSD-2-Clause
"""What the benches of MAC and port share: clocks, resets, a PHY, streams on the host's side, and events."""

from typing import Any

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge, Timer
from cocotbext.axi import AxiStreamBus, AxiStreamSource
from cocotbext.eth import RgmiiPhy

from inceptionn.sim.runner import bench_parameters
from inceptionn.sim.testbench import StreamSink, TestBench, silence

SPEED = bench_parameters()["speed"]  # Mbit/s
OCTET_NS = 8000 // SPEED


class MacSide(TestBench):
    """``phy``, ``source``, ``sink`` and ``events`` of a device with a MAC, by default behind RGMII.

    Events are counted, and frames are taken, with ``clock``. ``clocks`` as of a `TestBench`; that of the pads
    is 2 ns later.
    """

    def __init__(
        self, dut: Any, events: tuple[str, ...], clock: Any, resets: list[Any], phy: Any = None, **clocks: int
    ):
        for reset in resets:
            reset.value = 1
        super().__init__(dut, **clocks)
        if phy is None:
            pins = [getattr(dut, f"rgmii_{name}") for name in ("txd", "tx_ctl", "tx_clk", "rxd", "rx_ctl")]
            phy = RgmiiPhy(*pins, dut.rx_clk, speed=SPEED * 1e6)
            silence(phy.tx, phy.rx)
        self.phy, self.clock, self.resets = phy, clock, resets
        speed = dut.rgmii_speed if hasattr(dut, "rgmii_speed") else dut.speed
        speed.value = {10: 0, 100: 1, 1000: 2}[SPEED]
        self.source = AxiStreamSource(AxiStreamBus.from_prefix(dut, "s_axis"), dut.clk, dut.rst)
        self.sink = StreamSink(AxiStreamBus.from_prefix(dut, "m_axis"), clock, dut.rst)
        silence(self.source, self.sink)
        self.events = dict.fromkeys(events, 0)

    async def start(self) -> None:
        if hasattr(self.dut, "clk_late"):
            await Timer(2, "ns")
            Clock(self.dut.clk_late, 8, unit="ns").start()
        await Timer(20 * OCTET_NS, "ns")
        for reset in self.resets:
            reset.value = 0
        await Timer(60 * OCTET_NS, "ns")
        cocotb.start_soon(self._count_events())

    async def _count_events(self) -> None:
        while True:
            await RisingEdge(self.clock)
            bits = int(self.dut.events.value)
            for place, name in enumerate(self.events):
                self.events[name] += bits >> place & 1

    def expect(self, **counts: int) -> None:
        assert self.events == {**dict.fromkeys(self.events, 0), **counts}
