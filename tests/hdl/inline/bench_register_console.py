# SPDX-License-Identifier: BSD-2-Clause
"""cocotb bench of RegisterConsole: lines on a serial line, registers on AXI4-Lite."""

import random

import cocotb
from cocotb.task import Task
from cocotb.triggers import ClockCycles, FallingEdge, First
from cocotbext.axi import AxiLiteBus, AxiLiteSlave, Region

from inceptionn.sim.runner import bench_parameters
from inceptionn.sim.testbench import TestBench, silence

DIVISOR = bench_parameters()["divisor"]
BYTES = 1 << bench_parameters()["addr_width"]
REFUSED = 0x40
"""The slave refuses this word."""


class Registers(Region):
    """Words in a dictionary; every access is remembered."""

    def __init__(self):
        super().__init__(BYTES)
        self.words: dict[int, bytes] = {}
        self.accesses: list[tuple[str, int]] = []

    async def _read(self, address: int, length: int, **_: object) -> bytes:
        self.accesses.append(("r", address))
        if address == REFUSED:
            raise ValueError("refused")
        return self.words.get(address, bytes(4))

    async def _write(self, address: int, data: bytes, **_: object) -> None:
        self.accesses.append(("w", address))
        if address == REFUSED:
            raise ValueError("refused")
        self.words[address] = bytes(data)


class TB(TestBench):
    """A terminal, and the slave."""

    def __init__(self, dut):
        super().__init__(dut)
        dut.rx.value = 1
        self.registers = Registers()
        bus = AxiLiteBus.from_prefix(dut, "m_axil")
        self.slave = AxiLiteSlave(bus, dut.aclk, dut.aresetn, self.registers, reset_active_level=False)
        silence(self.slave.write_if, self.slave.read_if)

    async def say(self, text: str) -> None:
        for char in text.encode():
            if random.random() < 0.5:  # the terminal's clock is another one
                await ClockCycles(self.dut.aclk, random.randrange(1, DIVISOR))
            for bit in (0, *(char >> place & 1 for place in range(8)), 1):
                self.dut.rx.value = bit
                await ClockCycles(self.dut.aclk, DIVISOR)

    async def hear(self, said: Task[None]) -> str:
        """Characters until all is said and the line has been idle for four of them."""
        heard = ""
        while True:
            done = said.done()
            start, idle = FallingEdge(self.dut.tx), ClockCycles(self.dut.aclk, 40 * DIVISOR)
            if await First(start, idle) is idle:
                if done:
                    return heard
                continue
            await ClockCycles(self.dut.aclk, DIVISOR // 2)
            bits = []
            for _ in range(9):
                await ClockCycles(self.dut.aclk, DIVISOR)
                bits.append(int(self.dut.tx.value))
            assert bits.pop(), "no stop bit"
            heard += chr(sum(bit << place for place, bit in enumerate(bits)))

    async def ask(self, line: str, end: str = "\r") -> str:
        return await self.hear(cocotb.start_soon(self.say(line + end)))


@TB.test(timeout_time=10, timeout_unit="ms")
async def reads_and_writes(tb):
    """Numbers of one to eight digits in both cases, however the line is spaced and ended."""
    for _ in range(30):
        address = random.randrange(0x80, BYTES, 4)
        value = random.getrandbits(random.randrange(1, 33))
        gap, end = " " * random.randrange(1, 4), random.choice(("\r", "\n", "\r\n"))
        where, what = f"{address:0{random.randrange(1, 9)}x}", f"{value:{random.choice('xX')}}"
        assert await tb.ask(f"{random.choice('wW')}{gap}{where}{gap}{what}", end) == "ok\r\n"
        assert int.from_bytes(tb.registers.words[address], "little") == value
        assert await tb.ask(f"{random.choice('rR')}{gap}{where}", end) == f"{value:08x}\r\n"


@TB.test(timeout_time=10, timeout_unit="ms")
async def wrong_lines(tb):
    """Each is answered with an error and touches nothing; the next line is right again."""
    wrong = (
        *("hello", "r", "w", "r 1", "r 102", "r zz", "x 100", "rr 100", "r 100 1", "w 100", "w 100 1 2", "-"),
        *(f"r {BYTES:x}", "r 100000100", "w 100 123456789", "w 100000100 1", "100"),
    )
    for line in wrong:
        assert await tb.ask(line) == "error\r\n", line
        assert tb.registers.accesses == [], line
        assert await tb.ask("r 100") == "00000000\r\n", line
        tb.registers.accesses.clear()
    assert await tb.ask("\r\n\n\r  ") == ""


@TB.test(timeout_time=10, timeout_unit="ms")
async def refused_accesses(tb):
    for line in (f"r {REFUSED:x}", f"w {REFUSED:x} 1"):
        assert await tb.ask(line) == "error\r\n"
    assert [kind for kind, _ in tb.registers.accesses] == ["r", "w"]
    assert await tb.ask("r 80") == "00000000\r\n"
