# SPDX-License-Identifier: BSD-2-Clause
"""cocotb bench of PhyMonitor and Mdio with a PHY whose registers are a dictionary."""

from __future__ import annotations

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge

from inceptionn.sim.runner import bench_parameters
from inceptionn.sim.testbench import TestBench

FASTEST = bench_parameters()["fastest"]
PHY = bench_parameters()["phy"]
CLOCK_HZ = bench_parameters()["clock_hz"]
LIMIT = CLOCK_HZ // 2
UP = 1 << 2 | 1 << 5


class Phy:
    """Answers to one address (clause 22: 32 ones, start, operation, addresses, turnaround, 16 bits)."""

    def __init__(self, dut, address: int):
        self.dut, self.address = dut, address
        self.registers = {1: 0, 4: 0x1E1, 5: 0, 9: 0x300, 10: 0}
        self.writes: list[tuple[int, int]] = []
        dut.mdio_in.value = 1
        cocotb.start_soon(self._run())

    async def _bit(self, answer: int | None = None) -> int:
        """One period of MDC; ``answer`` is driven before its rising edge."""
        if answer is not None:
            assert not int(self.dut.mdio_enable.value), "both drive MDIO"
        self.dut.mdio_in.value = 1 if answer is None else answer
        await RisingEdge(self.dut.mdc)
        return int(self.dut.mdio_out.value) if int(self.dut.mdio_enable.value) else 1

    async def _number(self, bits: int) -> int:
        number = 0
        for _ in range(bits):
            number = number << 1 | await self._bit()
        return number

    async def _run(self) -> None:
        ones = 0
        while True:
            if await self._bit():
                ones += 1
                continue
            assert ones >= 32, "the preamble is too short"
            ones = 0
            assert await self._bit() == 1
            operation, address, register = await self._number(2), await self._number(5), await self._number(5)
            assert operation in (0b01, 0b10)
            if operation == 0b01:
                assert await self._number(2) == 0b10
                value = await self._number(16)
                if address == self.address:
                    assert not int(self.dut.phy_reset.value)
                    self.writes.append((register, value))
                    self.registers[register] = value
            elif address == self.address:
                value = self.registers.get(register, 0xFFFF)
                await self._bit()
                for place in range(17):  # the turnaround's second bit is 0
                    await self._bit(value >> 16 - place & 1)


class TB(TestBench):
    """The monitor, and the PHY."""

    def __init__(self, dut, address: int = PHY):
        super().__init__(dut)
        self.phy = Phy(dut, address)

    async def polled(self) -> tuple[bool, int]:
        """Link and speed, two polls later."""
        await ClockCycles(self.dut.aclk, LIMIT)
        return bool(int(self.dut.up.value)), int(self.dut.speed.value)


@cocotb.test()
async def follows_the_link(dut):
    tb = TB(dut)
    await tb.reset()
    assert int(dut.phy_reset.value)
    await ClockCycles(dut.aclk, CLOCK_HZ // 100 + 8)
    assert not int(dut.phy_reset.value)
    assert await tb.polled() == (False, 0)
    advertised = {0: 0x041, 1: 0x141, 2: 0x141}[FASTEST]
    setup = [(4, advertised), *[(9, 0x200)] * (FASTEST == 2), (0, 0x1200)]
    assert tb.phy.writes == setup

    registers = tb.phy.registers
    for status, partner, gigabit, expected in (
        (UP, 0x41, 0, (True, 0)),
        (UP, 0x141, 0, (True, 1)),
        (UP, 0x1E1, 1 << 11, (True, 2)),
        (UP, 0x1E1, 1 << 10, (True, 1)),  # gigabit at half duplex only
        (UP, 0x0A1, 0, (False, 0)),  # half duplex only
        (1 << 5, 0x141, 0, (False, 1)),
        (1 << 2, 0x141, 0, (False, 1)),
    ):
        registers[1], registers[5], registers[10] = status, partner, gigabit
        up, speed = await tb.polled()
        assert up == expected[0], (status, partner, gigabit)
        assert not up or speed == min(expected[1], FASTEST)
    assert tb.phy.writes == setup


@cocotb.test()
async def nobody_answers(dut):
    """A missing PHY reads as all ones, and its link is down."""
    tb = TB(dut, address=PHY ^ 1)
    await tb.reset()
    assert (await tb.polled())[0] is False
    assert tb.phy.writes == []
