# SPDX-License-Identifier: BSD-2-Clause
"""cocotb bench of AsyncQueue: nothing lost, doubled or reordered between any two clocks.

Not named as the benches that `inceptionn simulate` lists, which have one clock.
"""

import random
from collections import deque
from collections.abc import Coroutine
from typing import Any

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge, Timer

from inceptionn.sim.runner import bench_parameters
from inceptionn.sim.testbench import TestBench

WRITE_PS, READ_PS, DEPTH = (bench_parameters()[name] for name in ("write_ps", "read_ps", "depth"))


class TB(TestBench):
    """A producer and a consumer, each on its clock, and what is between them."""

    def __init__(self, dut):
        super().__init__(dut, write_clk=WRITE_PS, read_clk=READ_PS)
        dut.i_valid.value = dut.o_ready.value = 0
        dut.write_rst.value = dut.read_rst.value = 1
        self.inside: deque[int] = deque()
        self.number = self.taken = 0

    async def start(self) -> None:
        slower = self.dut.write_clk if WRITE_PS > READ_PS else self.dut.read_clk
        await ClockCycles(slower, 3)
        self.dut.write_rst.value = self.dut.read_rst.value = 0
        await ClockCycles(slower, 8)

    async def produce(self, count: int, probability: float) -> None:
        dut = self.dut
        while count:
            offer = random.random() < probability
            dut.i_valid.value = int(offer)
            dut.i_payload.value = self.number & 0xFFFF
            while True:
                await RisingEdge(dut.write_clk)
                if not offer:
                    break
                if int(dut.i_ready.value):
                    self.inside.append(self.number & 0xFFFF)
                    self.number += 1
                    count -= 1
                    break
        dut.i_valid.value = 0

    @staticmethod
    async def heard(reset_clock: Any, clock: Any) -> None:
        """Wait until the side of ``clock`` has heard of a reset in the other clock."""
        await ClockCycles(reset_clock, 3)
        await ClockCycles(clock, 4)

    async def after_hearing(self, reset_clock: Any, clock: Any, then: Coroutine[Any, Any, None]) -> None:
        await self.heard(reset_clock, clock)
        await then

    async def consume(self, count: int, probability: float) -> None:
        dut, idle = self.dut, 0
        while count:
            take = random.random() < probability
            dut.o_ready.value = int(take)
            await RisingEdge(dut.read_clk)
            if take and int(dut.o_valid.value):
                found, idle = int(dut.o_payload.value), 0
                assert self.inside, f"item {found} that nobody wrote"
                expected = self.inside.popleft()
                assert found == expected, f"item {found}, not {expected}"
                count -= 1
                self.taken += 1
            idle += 1
            assert idle < 500, f"no item for {idle} cycles, {count} to come"
        dut.o_ready.value = 0


@TB.test(timeout_time=200, timeout_unit="us")
@cocotb.parametrize(write=[1.0, 0.3], read=[1.0, 0.3])
async def in_order(tb, write, read):
    """Every pace on both sides: full, empty and in between."""
    sides = [cocotb.start_soon(tb.produce(300, write)), cocotb.start_soon(tb.consume(300, read))]
    for side in sides:
        await side
    assert not tb.inside


@TB.test(timeout_time=100, timeout_unit="us")
async def full_rate_and_depth(tb):
    """Check that the queue holds its depth and one more, then moves an item per cycle of the slower clock."""
    writing = cocotb.start_soon(tb.produce(400, 1.0))
    await ClockCycles(tb.dut.write_clk, 4 * DEPTH + 20)
    assert DEPTH <= len(tb.inside) <= DEPTH + 1
    begun = cocotb.utils.get_sim_time("ps")
    await tb.consume(400, 1.0)
    await writing
    cycles = (cocotb.utils.get_sim_time("ps") - begun) / max(WRITE_PS, READ_PS)
    assert cycles < 400 * 1.1 + 40, f"{cycles:.0f} cycles for 400 items"


@TB.test(timeout_time=200, timeout_unit="us")
@cocotb.parametrize(sides=["write", "read", "both"])
async def any_reset_empties_both_sides(tb, sides):
    """Check that a reset of either side, even a short one at a bad moment, leaves an empty, working queue."""
    dut = tb.dut
    for _ in range(12):
        writing = cocotb.start_soon(tb.produce(10_000, 0.7))
        reading = cocotb.start_soon(tb.consume(random.randint(1, 30), 0.8))
        await reading
        writing.cancel()
        dut.i_valid.value = 0
        await Timer(random.randrange(0, 2 * READ_PS), unit="ps")
        for side in ("write", "read"):
            if sides in (side, "both"):
                clock = getattr(dut, f"{side}_clk")
                await RisingEdge(clock)
                getattr(dut, f"{side}_rst").value = 1
        if sides in ("write", "both"):
            await RisingEdge(dut.write_clk)
        if sides in ("read", "both"):
            await RisingEdge(dut.read_clk)
        dut.write_rst.value = dut.read_rst.value = 0
        tb.inside.clear()
        tb.number = random.getrandbits(16)
        # As long as an item from before could still be on its way.
        await Timer(8 * max(WRITE_PS, READ_PS), unit="ps")
        await RisingEdge(dut.read_clk)
        assert not int(dut.o_valid.value), "an item survived the reset"
        both = [cocotb.start_soon(tb.produce(20, 0.9)), cocotb.start_soon(tb.consume(20, 0.9))]
        for side in both:
            await side
        assert not tb.inside


@TB.test(timeout_time=400, timeout_unit="us")
@cocotb.parametrize(side=["write", "read"])
async def a_reset_between_two_edges(tb, side):
    """So short that no register of its own clock sees it: it empties the queue as a longer one does."""
    dut = tb.dut
    period = {"write": WRITE_PS, "read": READ_PS}[side]
    slower = max(WRITE_PS, READ_PS)
    for at in range(10, 90, 4):
        filling = cocotb.start_soon(tb.produce(10_000, 1.0))
        if at % 8 == 2:
            await ClockCycles(dut.write_clk, 3 * DEPTH)
        else:
            await tb.consume(random.randint(1, 30), 1.0)
        filling.cancel()
        dut.i_valid.value = 0
        await RisingEdge(getattr(dut, f"{side}_clk"))
        reset = getattr(dut, f"{side}_rst")
        await Timer(period * at // 100, unit="ps")
        reset.value = 1
        await Timer(period * 5 // 100, unit="ps")
        reset.value = 0
        tb.inside.clear()
        await tb.heard(getattr(dut, f"{side}_clk"), dut.read_clk)
        dut.o_ready.value = 1
        for _ in range(12 * slower // READ_PS):
            await RisingEdge(dut.read_clk)
            assert not int(dut.o_valid.value), "an item survived the reset"
        dut.o_ready.value = 0
        both = [cocotb.start_soon(tb.produce(40, 1.0)), cocotb.start_soon(tb.consume(40, 0.7))]
        for end in both:
            await end
        assert not tb.inside


@TB.test(timeout_time=400, timeout_unit="us")
async def nothing_is_lost_after_a_short_reset(tb):
    """Check that what is accepted once a side knows of a reset arrives, also while the other is held."""
    for side in ("write", "read") * 10:
        # Some items move, so that the pointers differ from zero, and some stay inside.
        both = [cocotb.start_soon(tb.produce(DEPTH, 1.0)), cocotb.start_soon(tb.consume(5, 1.0))]
        for end in both:
            await end
        clock, reset = getattr(tb.dut, f"{side}_clk"), getattr(tb.dut, f"{side}_rst")
        period = {"write": WRITE_PS, "read": READ_PS}[side]
        await RisingEdge(clock)
        await Timer(period * random.randint(10, 80) // 100, unit="ps")
        reset.value = 1
        await Timer(period * 5 // 100, unit="ps")
        reset.value = 0
        tb.inside.clear()
        both = [cocotb.start_soon(tb.after_hearing(clock, tb.dut.write_clk, tb.produce(60, 1.0)))]
        both += [cocotb.start_soon(tb.after_hearing(clock, tb.dut.read_clk, tb.consume(60, 0.5)))]
        for end in both:
            await end
        assert not tb.inside
