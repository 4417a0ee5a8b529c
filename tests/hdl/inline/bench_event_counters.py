# SPDX-License-Identifier: BSD-2-Clause
"""cocotb bench of EventCounters against sums in Python: parameters ``slots``, ``start``."""

import random

from cocotb.triggers import ClockCycles, RisingEdge

from inceptionn.sim.runner import bench_parameters
from inceptionn.sim.testbench import TestBench

SLOTS, START = bench_parameters()["slots"], bench_parameters()["start"]
CLOSEST = (SLOTS + 2) // 3
"""Cycles between pulses that never come four to a sweep."""


class TB(TestBench):
    """The counters, and what they should hold."""

    def __init__(self, dut):
        super().__init__(dut)
        dut.events.value = dut.slot.value = 0
        self.model = [START] * SLOTS

    async def pulse(self, events: int) -> None:
        """One cycle."""
        self.dut.events.value = events
        self.model = [count + (events >> slot & 1) for slot, count in enumerate(self.model)]
        await RisingEdge(self.dut.aclk)
        self.dut.events.value = 0

    async def check(self) -> None:
        await ClockCycles(self.dut.aclk, SLOTS + 1)
        for slot in range(SLOTS):
            assert await self.read(slot) == self.model[slot] % (1 << 64), slot

    async def read(self, slot: int) -> int:
        self.dut.slot.value = slot
        await ClockCycles(self.dut.aclk, SLOTS + 2)
        return int(self.dut.value.value)


@TB.test(timeout_time=1, timeout_unit="ms")
async def counts(tb):
    """Every slot, at random, through the end of 64 bits; a reset in between keeps the sums."""
    await tb.check()
    for _ in range(2):
        rest = [random.randrange(CLOSEST) for _ in range(SLOTS)]
        for _ in range(4000):
            events = 0
            for slot in range(SLOTS):
                if rest[slot] == 0:
                    events |= 1 << slot
                    rest[slot] = random.choice((CLOSEST, CLOSEST, SLOTS - 1, SLOTS, 3 * SLOTS))
                rest[slot] -= 1
            await tb.pulse(events)
        await tb.check()
        await tb.reset()
        await tb.check()


@TB.test(timeout_time=1, timeout_unit="ms")
async def many(tb):
    """All at once and as close as they may be, until a carry reaches the thirteenth bit."""
    tb.model = [await tb.read(slot) for slot in range(SLOTS)]
    for _ in range(4100):
        await tb.pulse((1 << SLOTS) - 1)
        await ClockCycles(tb.dut.aclk, CLOSEST - 1)
    assert min(tb.model) > 4096
    await tb.check()
