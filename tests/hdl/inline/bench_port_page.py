# SPDX-License-Identifier: BSD-2-Clause
"""cocotb bench of PortPage: every word of the page through AXI4-Lite; parameter ``start``."""

import random
from itertools import cycle

from cocotb.triggers import ClockCycles, RisingEdge
from cocotb.utils import get_sim_time
from cocotbext.axi import AxiResp

from inceptionn.hdl.inline.registers import COUNTER_BYTES, EVENTS, PAGE_WIDTH, PORT_PAGE, PORTS, SLOTS
from inceptionn.sim.runner import bench_parameters
from inceptionn.sim.testbench import TestBench

LINK = {"up": 0, "speed": 1, "managed": 3}
"""Lowest bit of each member of a port's link."""
LINK_WIDTH = 4
START = bench_parameters()["start"]
LONGEST_NS = 4 * 26
"""Of a read: a sweep of 18 cycles, and the master's own cycles."""


class TB(TestBench):
    """The page, and what its counters should hold."""

    def __init__(self, dut):
        super().__init__(dut)
        dut.links.value = dut.events.value = 0
        self.bus = self.axi_lite()
        self.model = dict.fromkeys((f"{port}_{event}".upper() for port in PORTS for event in EVENTS), START)

    async def read(self, address: int) -> tuple[int, AxiResp]:
        begin = get_sim_time("ns")
        answer = await self.bus.read(address, 4)
        assert get_sim_time("ns") - begin < LONGEST_NS
        return int.from_bytes(answer.data, "little"), answer.resp

    async def counter(self, name: str) -> int:
        words = [await self.read(PORT_PAGE[name].offset + at) for at in (0, COUNTER_BYTES // 2)]
        assert all(resp == AxiResp.OKAY for _, resp in words)
        return words[0][0] | words[1][0] << 32

    async def events(self, count: int) -> None:
        """Random events, at most three of each within a sweep."""
        for _ in range(count):
            for _ in range(3):
                bits = random.getrandbits(len(self.model))
                self.dut.events.value = bits
                for place, name in enumerate(self.model):
                    self.model[name] = (self.model[name] + (bits >> place & 1)) % (1 << 64)
                await RisingEdge(self.dut.aclk)
            self.dut.events.value = 0
            await ClockCycles(self.dut.aclk, SLOTS)


@TB.test(timeout_time=10, timeout_unit="ms")
async def every_counter(tb):
    for sweeps in (0, 50, 50):
        await tb.events(sweeps)
        assert {name: await tb.counter(name) for name in tb.model} == tb.model
        await tb.reset()  # which keeps them


@TB.test(timeout_time=10, timeout_unit="ms")
async def the_links(tb):
    register = PORT_PAGE["LINKS"]
    for _ in range(20):
        links = random.getrandbits(LINK_WIDTH * len(PORTS))
        tb.dut.links.value = links
        await RisingEdge(tb.dut.aclk)
        value, resp = await tb.read(register.offset)
        assert resp == AxiResp.OKAY
        for port, name in enumerate(PORTS):
            for field, low in LINK.items():
                width = 2 if field == "speed" else 1
                expected = links >> LINK_WIDTH * port + low & (1 << width) - 1
                assert register[f"{name}_{field}".upper()].get(value) == expected, (name, field, links, value)


@TB.test(timeout_time=10, timeout_unit="ms")
async def everything_else(tb):
    """Words that the table has not are refused, and so is every write."""
    for address in range(0, 1 << PAGE_WIDTH, 4):
        _, resp = await tb.read(address)
        assert resp == (AxiResp.OKAY if address in PORT_PAGE.words else AxiResp.SLVERR), hex(address)
    tb.bus.write_if.b_channel.set_pause_generator(cycle([1, 1, 1, 0]))
    for address in (PORT_PAGE["LINKS"].offset, PORT_PAGE["HOST_GOOD"].offset, 0xFFC):
        answer = await tb.bus.write(address, bytes(4))
        assert answer.resp == AxiResp.SLVERR
