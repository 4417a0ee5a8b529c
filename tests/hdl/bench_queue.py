# SPDX-License-Identifier: BSD-2-Clause
"""cocotb bench of PushQueue: nothing lost with all of its slack used, nothing early, nothing late."""

from __future__ import annotations

import random
from collections import deque

import cocotb
from lockstep import Lockstep

from inceptionn.sim.runner import bench_parameters

PARAMETERS = bench_parameters()
WIDTH, DEPTH, SLACK = PARAMETERS["width"], PARAMETERS["depth"], PARAMETERS["slack"]
PLACES = DEPTH + PARAMETERS.get("registers", 1)
"""Items that fit inside."""
LATENCY = PARAMETERS.get("latency", 2)
"""Cycles from a push until the item can be popped."""


class TB(Lockstep):
    """A producer that pushes ``SLACK`` more where ``room`` has fallen, and a consumer; both at random."""

    def __init__(self, dut):
        super().__init__(dut, pulses=("push", "pop"))
        self.items: deque[tuple[int, int]] = deque()
        """Every item inside, with the cycle of its push."""
        self.credit = SLACK
        self.popped = 0
        self.most = 0

    async def step(self, push: float, pop: float) -> None:
        """One cycle; ``push`` and ``pop`` are probabilities."""
        items, valid = self.items, self.read("valid")
        # A push LATENCY cycles ago can be popped; so an older item is at the output, and no younger one.
        due = bool(items) and items[0][1] <= self.now - LATENCY
        assert valid == due, f"cycle {self.now}: valid is {valid}"
        if valid:
            found, (item, _) = self.read("data"), items[0]
            assert found == item, f"cycle {self.now}: {found:#x}, not {item:#x}"
        room = self.read("room")
        assert not room or PLACES - len(items) >= SLACK, f"room with {len(items)} items inside"
        self.credit = SLACK if room else self.credit
        wants, takes = random.random() < push and (room or self.credit), random.random() < pop
        if takes and valid:
            items.popleft()
            self.popped += 1
        item = random.getrandbits(WIDTH)
        if wants:
            self.credit -= not room
            items.append((item, self.now))
            self.most = max(self.most, len(items))
        await self.cycle(push=bool(wants), push_data=item, pop=takes)

    async def empty(self) -> None:
        for _ in range(DEPTH + 4):
            await self.step(0.0, 1.0)
        assert not self.items
        assert self.read("room")


@cocotb.test()
async def filled_to_the_brim(dut):
    """With no pop, the queue takes what its depth promises; again and again, at every place of the ring."""
    tb = TB(dut)
    await tb.reset()
    for _ in range(2 * DEPTH + 1):
        for _ in range(2 * DEPTH):
            await tb.step(1.0, 0.0)
        assert not tb.read("room")
        assert tb.credit == 0
        for _ in range(random.randint(1, DEPTH)):
            await tb.step(0.0, 1.0)
    assert tb.most == PLACES, f"{tb.most} items at most, but depth and output registers hold {PLACES}"
    await tb.empty()


@cocotb.test()
async def one_item_per_cycle(dut):
    """A pushing and a popping end that never pause: ``room`` stays, each item leaves after LATENCY cycles."""
    tb = TB(dut)
    await tb.reset()
    for _ in range(300):
        assert tb.read("room")
        await tb.step(1.0, 1.0)
        assert len(tb.items) <= LATENCY + 1
    assert tb.popped == 300 - LATENCY
    await tb.empty()


@cocotb.test()
@cocotb.parametrize(push=[0.1, 0.5, 0.9], pop=[0.1, 0.5, 0.9])
async def random_pauses(dut, push, pop):
    tb = TB(dut)
    await tb.reset()
    for _ in range(800):
        await tb.step(push, pop)
    await tb.empty()
    assert tb.popped > 50


@cocotb.test()
async def bursts(dut):
    """Runs of pushes and of pops, so that the queue is often full and often empty."""
    tb = TB(dut)
    await tb.reset()
    for _ in range(60):
        push, pop = random.choice([(1.0, 0.0), (0.0, 1.0), (1.0, 1.0), (0.0, 0.0), (0.5, 0.9)])
        for _ in range(random.randint(1, 2 * DEPTH)):
            await tb.step(push, pop)
    await tb.empty()


@cocotb.test()
async def reset_empties(dut):
    tb = TB(dut)
    await tb.reset()
    for _ in range(DEPTH):
        await tb.step(1.0, 0.0)
    await tb.reset()
    tb.items.clear()
    for _ in range(10):
        await tb.step(0.0, 1.0)
    for _ in range(100):
        await tb.step(0.5, 0.5)
    await tb.empty()
