# SPDX-License-Identifier: BSD-2-Clause
"""cocotb bench of AXI4LiteCrossing: every answer belongs to its access, whichever side is reset meanwhile.

Not named as the benches that `inceptionn simulate` lists, which have one clock.
"""

import random

import cocotb
from cocotb.triggers import ClockCycles, FallingEdge, RisingEdge, Timer, with_timeout
from cocotbext.axi import AxiLiteBus, AxiLiteMaster, AxiLiteRam

from inceptionn.sim.runner import bench_parameters
from inceptionn.sim.testbench import TestBench, silence

MASTER_PS, SLAVE_PS = (bench_parameters()[name] for name in ("master_ps", "slave_ps"))
WORDS = 16
REQUESTS = {"aw": ("awaddr", "awprot"), "w": ("wdata", "wstrb"), "ar": ("araddr", "arprot")}
ROUNDS = 60


class TB(TestBench):
    """A master on one clock, a slow memory on the other, and an eye on what the memory is asked."""

    def __init__(self, dut, *, pulses: bool = False):
        """``pulses``: resets fall between two edges of the slave's clock, so the memory sees none."""
        self.pulses = pulses
        super().__init__(dut, master_clk=MASTER_PS, slave_clk=SLAVE_PS)
        dut.master_rst.value = dut.slave_rst.value = 1
        self.master = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "s_axil"), dut.master_clk, dut.master_rst)
        self.ram = AxiLiteRam(
            AxiLiteBus.from_prefix(dut, "m_axil"), dut.slave_clk, None if pulses else dut.slave_rst,
            size=4 * WORDS,
        )  # fmt: skip
        write, read = self.ram.write_if, self.ram.read_if
        self.channels = (
            write.aw_channel, write.w_channel, write.b_channel, read.ar_channel, read.r_channel
        )  # fmt: skip
        silence(self.master.write_if, self.master.read_if, write, read)
        self.number = 0
        cocotb.start_soon(self._rules())

    async def start(self, stall: float = 0.0) -> None:
        for channel in self.channels:
            channel.set_pause_generator(iter(lambda: random.random() < stall, None))
        slower = self.dut.master_clk if MASTER_PS > SLAVE_PS else self.dut.slave_clk
        await ClockCycles(slower, 4)
        self.dut.master_rst.value = self.dut.slave_rst.value = 0
        await ClockCycles(slower, 8)

    async def _rules(self) -> None:
        """AXI4-Lite, A3.2.1: a request that is offered stays as it is until it is accepted."""
        waiting: dict[str, tuple[int, ...]] = {}
        while True:
            await RisingEdge(self.dut.slave_clk)
            if int(self.dut.slave_rst.value):
                waiting.clear()
                continue
            for prefix, names in REQUESTS.items():
                valid = self.read_slave(f"{prefix}valid")
                assert valid or prefix not in waiting, f"{prefix}valid fell before it was accepted"
                if valid:
                    now = tuple(self.read_slave(name) for name in names)
                    assert waiting.pop(prefix, now) == now, f"{prefix} changed before it was accepted"
                    if not self.read_slave(f"{prefix}ready"):
                        waiting[prefix] = now

    def read_slave(self, name: str) -> int:
        return int(getattr(self.dut, f"m_axil_{name}").value)

    def value(self, word: int) -> int:
        """Return what the memory holds."""
        return int(self.ram.read_dword(4 * word))

    async def write(self, word: int, value: int) -> None:
        answer = await with_timeout(self.master.write(4 * word, value.to_bytes(4, "little")), 20, "us")
        assert answer.resp == 0
        assert self.value(word) == value, f"word {word} is {self.value(word):#x}, not {value:#x}"

    async def read(self, word: int) -> None:
        answer = await with_timeout(self.master.read(4 * word, 4), 20, "us")
        found, expected = int.from_bytes(answer.data, "little"), self.value(word)
        assert answer.resp == 0
        assert found == expected, f"word {word} reads {found:#x}, not {expected:#x}"

    async def some(self, count: int) -> None:
        """Make accesses of both kinds, one after the other; write every value once."""
        for _ in range(count):
            self.number += 1
            await self.write(random.randrange(WORDS), self.number)
            await self.read(random.randrange(WORDS))

    def begin(self) -> tuple[int, int]:
        """Start a read and a write without waiting for either; return the write's word and value."""
        self.number += 1
        word = random.randrange(WORDS)
        cocotb.start_soon(self.master.read(4 * random.randrange(WORDS), 4))
        cocotb.start_soon(self.master.write(4 * word, self.number.to_bytes(4, "little")))
        return word, self.number

    async def reset(self, *sides: str) -> None:
        """Reset one or both sides, for an edge of each side's clock or more, or for the slave's pulse."""
        slower = "master" if MASTER_PS > SLAVE_PS else "slave"
        clock = getattr(self.dut, f"{slower if slower in sides else sides[0]}_clk")
        await FallingEdge(clock)
        for side in sides:
            getattr(self.dut, f"{side}_rst").value = 1
        if self.pulses and "slave" in sides:
            await Timer(SLAVE_PS // 8, unit="ps")
        else:
            await ClockCycles(clock, random.choice((1, 1, 2, 20)), FallingEdge)
        for side in sides:
            getattr(self.dut, f"{side}_rst").value = 0


@cocotb.test(timeout_time=2, timeout_unit="ms")
@cocotb.parametrize(stall=[0.0, 0.6])
async def every_access_its_answer(dut, stall):
    """Check reads and writes one after the other, with answers at once and late."""
    tb = TB(dut)
    await tb.start(stall)
    await tb.some(60)
    for word in range(WORDS):
        await tb.read(word)


@cocotb.test(timeout_time=2, timeout_unit="ms")
@cocotb.parametrize(stall=[0.0, 0.6, 0.9])
async def master_reset_alone(dut, stall):
    """At any moment of an access: it is carried out whole or not at all, and its answer never comes."""
    tb = TB(dut)
    await tb.start(stall)
    outcomes = set()
    for _ in range(ROUNDS):
        before = [tb.value(word) for word in range(WORDS)]
        word, value = tb.begin()
        await Timer(random.randrange(12 * max(MASTER_PS, SLAVE_PS)), unit="ps")
        await tb.reset("master")
        await tb.read((word + 1) % WORDS)
        # The slave's writes are in order: after one more, the first is done if it ever will be.
        tb.number += 1
        before[word] = tb.value(word) if tb.value(word) in (before[word], value) else -1
        other = (word + 5) % WORDS
        await tb.write(other, tb.number)
        if tb.value(word) == value:
            before[word] = value
        before[other] = tb.number
        outcomes.add(before[word] == value)
        assert [tb.value(word) for word in range(WORDS)] == before
        await tb.read(word)
    assert outcomes == {False, True}, "every reset came too early, or every one too late"


@cocotb.test(timeout_time=2, timeout_unit="ms")
@cocotb.parametrize(
    (("sides", "pulses"), [(("slave",), False), (("slave",), True), (("slave", "master"), False)])
)
async def slave_reset(dut, sides, pulses):
    """``alive`` falls, and an access in flight is dropped; the next access works."""
    tb = TB(dut, pulses=pulses)
    await tb.start(0.6)
    for _ in range(ROUNDS):
        tb.begin()
        await Timer(random.randrange(12 * max(MASTER_PS, SLAVE_PS)), unit="ps")
        fell = cocotb.start_soon(with_timeout(FallingEdge(dut.alive), 10, "us"))
        await tb.reset(*sides)
        await fell
        if "master" not in sides:  # whoever drives it gives up what is not answered
            await tb.reset("master")
        if not int(dut.alive.value):
            await with_timeout(RisingEdge(dut.alive), 10, "us")
        await tb.some(2)
