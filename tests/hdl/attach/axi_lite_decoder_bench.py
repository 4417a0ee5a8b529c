# SPDX-License-Identifier: BSD-2-Clause
"""cocotb bench of AXI4LiteDecoder: every address to its slave, an answer whatever a slave's reset does.

Not named as the benches that `inceptionn simulate` lists, which have one clock.
"""

import cocotb
from cocotb.triggers import ClockCycles, with_timeout
from cocotbext.axi import AxiLiteBus, AxiLiteMaster, AxiLiteRam

from inceptionn.sim.runner import bench_parameters
from inceptionn.sim.testbench import TestBench, silence

SLAVES, PAGE, SIZE = (bench_parameters()[name] for name in ("slaves", "page", "size"))
MASTER_PS, SLAVE_PS = 10000, 4000
PATIENCE_NS = 40 * MASTER_PS // 1000
OKAY, SLVERR = 0, 2


class TB(TestBench):
    """A master on one clock, a memory for each slave on another."""

    def __init__(self, dut):
        super().__init__(dut, master_clk=MASTER_PS, slave_clk=SLAVE_PS)
        dut.master_rst.value = 1
        self.resets = [getattr(dut, f"slave{n}_rst") for n in range(SLAVES)]
        self.master = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "s_axil"), dut.master_clk, dut.master_rst)
        silence(self.master.write_if, self.master.read_if)
        self.memories = []
        for n, reset in enumerate(self.resets):
            reset.value = 1
            bus = AxiLiteBus.from_prefix(dut, f"m_axil{n}")
            memory = AxiLiteRam(bus, dut.slave_clk, reset, size=PAGE)
            silence(memory.write_if, memory.read_if)
            self.memories.append(memory)

    async def start(self) -> None:
        await ClockCycles(self.dut.master_clk, 4)
        for reset in (self.dut.master_rst, *self.resets):
            reset.value = 0
        await ClockCycles(self.dut.master_clk, 8)

    async def write(self, address: int, value: int) -> int:
        """Write a value; return the answer, which must come, and soon."""
        access = self.master.write(address, value.to_bytes(4, "little"))
        return int((await with_timeout(access, PATIENCE_NS, "ns")).resp)

    async def read(self, address: int) -> tuple[int, int]:
        answer = await with_timeout(self.master.read(address, 4), PATIENCE_NS, "ns")
        return int(answer.resp), int.from_bytes(answer.data, "little")


@TB.test(timeout_time=2, timeout_unit="ms")
async def every_address_to_its_slave(tb):
    """Check the first and last word of every page; after the last slave's, nothing is read or written."""
    addresses = [at for page in range(0, SIZE, PAGE) for at in (page, page + PAGE - 4)]
    for address in addresses:
        assert await tb.write(address, address + 1) == (OKAY if address < SLAVES * PAGE else SLVERR)
    for address in addresses:
        held = address < SLAVES * PAGE
        assert await tb.read(address) == ((OKAY, address + 1) if held else (SLVERR, 0))
    for n, memory in enumerate(tb.memories):
        for offset in (0, PAGE - 4):
            assert memory.read_dword(offset) == n * PAGE + offset + 1


@TB.test(timeout_time=2, timeout_unit="ms")
@cocotb.parametrize(kind=["read", "write"], length=[1, 5])
async def resets_at_every_cycle(tb, kind, length):
    """Check that an access in any cycle before, in and after a slave's reset is answered, done or refused."""
    last, outcomes = SLAVES - 1, set()
    base = last * PAGE
    for offset in range(-12, length + 12):
        value = 1000 + offset
        assert await tb.write(base, value) == OKAY
        access = cocotb.start_soon(delayed(tb, kind, base, value, max(0, offset)))
        await ClockCycles(tb.dut.master_clk, 1 + max(0, -offset))
        tb.resets[last].value = 1
        await ClockCycles(tb.dut.master_clk, length)
        tb.resets[last].value = 0
        answer = await access
        outcomes.add(answer)
        assert answer in (OKAY, SLVERR)
        await ClockCycles(tb.dut.master_clk, 12)
        assert await tb.read(base) == (OKAY, tb.memories[last].read_dword(0))
    assert outcomes == {OKAY, SLVERR}, "every access came too early, or every one too late"


async def delayed(tb: TB, kind: str, address: int, value: int, cycles: int) -> int:
    """Begin an access after ``cycles`` cycles and return its answer; it must read what was written."""
    await ClockCycles(tb.dut.master_clk, 1 + cycles)
    if kind == "write":
        return await tb.write(address, value + 1)
    answer, found = await tb.read(address)
    assert found == (value if answer == OKAY else 0)
    return answer
