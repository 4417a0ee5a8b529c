# SPDX-License-Identifier: BSD-2-Clause
"""cocotb bench of PhyMonitor and Mdio with one or two PHYs whose registers are a dictionary."""

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge

from inceptionn.sim.runner import bench_parameters
from inceptionn.sim.testbench import TestBench

FASTEST = bench_parameters()["fastest"]
PHY = bench_parameters()["phy"]
CLOCK_HZ = bench_parameters()["clock_hz"]
LIMIT = CLOCK_HZ // 2
SHARED = bench_parameters().get("shared", False)
UP = 1 << 2 | 1 << 5 | 1
SETUP = [(4, {0: 0x041, 1: 0x141, 2: 0x141}[FASTEST]), *[(9, 0x200)] * (FASTEST == 2), (0, 0x1200)]


class Phy:
    """Answers to one address (clause 22: 32 ones, start, operation, addresses, turnaround, 16 bits)."""

    def __init__(self, dut, address: int, other: "Phy | None" = None):
        self.dut = dut
        self.address: int | None = address
        self.registers = {1: 1, 4: 0x1E1, 5: 0, 9: 0x300, 10: 0}
        self.writes: list[tuple[int, int]] = []
        self.others = [other] if other else []
        dut.mdio_in.value = 1

    def start(self) -> None:
        """Answer for this PHY and the other on the same wires."""
        cocotb.start_soon(self._run())

    def _addressed(self, address: int) -> "Phy | None":
        return next((phy for phy in (self, *self.others) if phy.address == address), None)

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
                if phy := self._addressed(address):
                    assert not int(self.dut.phy_reset.value)
                    phy.writes.append((register, value))
                    phy.registers[register] = value
            elif phy := self._addressed(address):
                value = phy.registers.get(register, 0xFFFF)
                await self._bit()
                for place in range(17):  # the turnaround's second bit is 0
                    await self._bit(value >> 16 - place & 1)


class TB(TestBench):
    """The monitor, and the PHY."""

    def __init__(self, dut, address: int = PHY):
        super().__init__(dut)
        self.other = Phy(dut, address + 1) if SHARED else None
        self.phy = Phy(dut, address, self.other)
        self.phy.start()

    async def managed(self, level: bool, polls: int) -> None:
        """Wait until ``managed``, whether a PHY answers, is ``level``; fail after ``polls`` polls."""
        for _ in range(polls * (CLOCK_HZ // 10 + 1000)):
            if int(self.dut.managed.value) == level:
                return
            await ClockCycles(self.dut.aclk, 1)
        raise AssertionError(f"managed is not {level} after {polls} polls")

    async def polled(self) -> tuple[bool, int]:
        """Link and speed, two polls later."""
        await ClockCycles(self.dut.aclk, LIMIT)
        return bool(int(self.dut.up.value)), int(self.dut.speed.value)


@TB.test()
async def follows_the_link(tb):
    assert int(tb.dut.phy_reset.value)
    await ClockCycles(tb.dut.aclk, CLOCK_HZ // 100 + 8)
    assert not int(tb.dut.phy_reset.value)
    assert await tb.polled() == (False, 0)
    assert int(tb.dut.managed.value)
    assert tb.phy.writes == SETUP

    registers = tb.phy.registers
    for status, partner, gigabit, expected in (
        (UP, 0x41, 0, (True, 0)),
        (UP, 0x141, 0, (True, 1)),
        (UP, 0x1E1, 0x3800, (True, 2)),
        (UP, 0x1E1, 0x3400, (True, 1)),  # gigabit at half duplex only
        (UP, 0x1E1, 0x0800, (True, 1)),  # both ends can do gigabit, the cable cannot
        (UP, 0x0A1, 0, (False, 0)),  # half duplex only
        (1 << 5, 0x141, 0, (False, 1)),
        (1 << 2, 0x141, 0, (False, 1)),
    ):
        registers[1], registers[5], registers[10] = status, partner, gigabit
        up, speed = await tb.polled()
        assert up == expected[0], (status, partner, gigabit)
        assert not up or speed == min(expected[1], FASTEST)
    assert tb.phy.writes == SETUP


@cocotb.test(skip=SHARED)
async def another_address(dut):
    """Check that the PHY is looked for, set up, lost, and set up again; its link is down meanwhile."""
    tb = TB(dut, address=(PHY + 2) % 32)
    tb.phy.registers.update({1: UP, 5: 0x141})
    await tb.reset()
    await tb.managed(True, 5)
    assert not int(dut.up.value), "a link before the setup does not count"
    assert (await tb.polled())[0]
    assert tb.phy.writes == SETUP
    address, tb.phy.address = tb.phy.address, None
    await tb.managed(False, 2)
    await ClockCycles(dut.aclk, 4)
    assert not int(dut.up.value)
    tb.phy.address = address
    await tb.managed(True, 33)
    assert (await tb.polled())[0]
    assert tb.phy.writes == 2 * SETUP


@cocotb.test()
async def a_line_held_low(dut):
    """All zeros are no PHY."""
    tb = TB(dut)
    tb.phy.registers[1] = 0
    await tb.reset()
    await tb.polled()
    assert not int(dut.managed.value)
    assert not int(dut.up.value)
    assert tb.phy.writes == []


@TB.test(skip=not SHARED)
async def two_on_one_pair_of_wires(tb):
    """Each monitor sets up its own PHY alone and follows it, also while the other is silent."""
    other = tb.other
    tb.phy.registers.update({1: UP, 5: 0x1E1, 10: 0x3800})
    assert await tb.polled() == (True, 2)
    assert tb.phy.writes == other.writes == SETUP
    assert not int(tb.dut.other_up.value)
    other.registers.update({1: UP, 5: 0x141})
    assert await tb.polled() == (True, 2)
    assert (int(tb.dut.other_up.value), int(tb.dut.other_speed.value)) == (1, 1)
    address, other.address = other.address, None
    assert await tb.polled() == (True, 2)
    assert not int(tb.dut.other_managed.value), "the other's PHY was looked for at another address"
    other.address = address
    await tb.polled()
    assert (int(tb.dut.other_up.value), int(tb.dut.other_speed.value)) == (1, 1)
    assert (tb.phy.writes, other.writes) == (SETUP, 2 * SETUP)
