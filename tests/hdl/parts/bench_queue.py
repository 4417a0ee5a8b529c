# SPDX-License-Identifier: BSD-2-Clause
"""cocotb bench of queues to a pull stream: nothing lost with all slack used, nothing early, nothing late."""

import random

import cocotb
from queue_bench import DEPTH, PARAMETERS, QueueBench

PLACES = DEPTH + PARAMETERS.get("registers", 1)
"""Items that fit inside."""
LATENCY = PARAMETERS.get("latency", 2)
"""Cycles from a push until the item can be popped."""


class TB(QueueBench):
    """With a consumer that pops at random."""

    def __init__(self, dut):
        super().__init__(dut, PLACES)
        self.popped = 0

    async def step(self, push: float, pop: float) -> None:
        items, valid = self.items, self.read("o_valid")
        # A push LATENCY cycles ago can be popped; so an older item is at the output, and no younger one.
        due = bool(items) and items[0][1] <= self.now - LATENCY
        assert valid == due, f"cycle {self.now}: valid is {valid}"
        if valid:
            found, (item, _) = self.read("o_payload"), items[0]
            assert found == item, f"cycle {self.now}: {found:#x}, not {item:#x}"
        wants, takes = self.may_push(push), random.random() < pop
        if takes and valid:
            items.popleft()
            self.popped += 1
        await self.end(wants, takes)


@TB.test()
async def filled_to_the_brim(tb):
    await tb.fill_to_the_brim()


@TB.test()
async def one_item_per_cycle(tb):
    """Check that, if neither end pauses, ``room`` stays high and each item leaves after LATENCY cycles."""
    for _ in range(300):
        assert tb.read("room")
        await tb.step(1.0, 1.0)
        assert len(tb.items) <= LATENCY + 1
    assert tb.popped == 300 - LATENCY
    await tb.empty()


@TB.test()
@cocotb.parametrize(push=[0.1, 0.5, 0.9], pop=[0.1, 0.5, 0.9])
async def random_pauses(tb, push, pop):
    for _ in range(800):
        await tb.step(push, pop)
    await tb.empty()
    assert tb.popped > 50


@TB.test()
async def bursts(tb):
    """Check runs of pushes and of pops, so that the queue is often full and often empty."""
    for _ in range(60):
        push, pop = random.choice([(1.0, 0.0), (0.0, 1.0), (1.0, 1.0), (0.0, 0.0), (0.5, 0.9)])
        for _ in range(random.randint(1, 2 * DEPTH)):
            await tb.step(push, pop)
    await tb.empty()


@TB.test()
async def reset_empties(tb):
    for _ in range(DEPTH):
        await tb.step(1.0, 0.0)
    await tb.reset()
    tb.items.clear()
    for _ in range(10):
        await tb.step(0.0, 1.0)
    for _ in range(100):
        await tb.step(0.5, 0.5)
    await tb.empty()
