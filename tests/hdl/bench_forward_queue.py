# SPDX-License-Identifier: BSD-2-Clause
"""cocotb bench of PushQueue with ``forward``: every item once, in its cycle, for each permission to leave."""

from __future__ import annotations

import random
from collections import deque

import cocotb
from lockstep import Lockstep

from inceptionn.sim.runner import bench_parameters

PARAMETERS = bench_parameters()
WIDTH, DEPTH, SLACK = PARAMETERS["width"], PARAMETERS["depth"], PARAMETERS["slack"]


class TB(Lockstep):
    """A producer that uses all of its slack, and a consumer that permits at random."""

    def __init__(self, dut):
        super().__init__(dut, pulses=("push", "pop"), quiet={"valid": 0})
        self.items: deque[tuple[int, int]] = deque()
        """Every item inside, with the cycle of its push."""
        self.credit = SLACK
        self.most = 0
        self.left = 0

    async def step(self, push: float, pop: float) -> None:
        """One cycle; ``push`` and ``pop`` are probabilities."""
        room = self.read("room")
        assert not room or DEPTH - len(self.items) >= SLACK, f"room with {len(self.items)} items inside"
        self.credit = SLACK if room else self.credit
        permits = random.random() < pop
        # An item can leave in the cycle behind its push, and shows one later.
        if permits and self.items and self.items[0][1] < self.now:
            self.due(1, valid=1, data=self.items.popleft()[0])
            self.left += 1
        wants = random.random() < push and bool(room or self.credit)
        item = random.getrandbits(WIDTH)
        if wants:
            self.credit -= not room
            self.items.append((item, self.now))
            self.most = max(self.most, len(self.items))
        await self.cycle(push=int(wants), push_data=item, pop=int(permits))

    async def empty(self) -> None:
        for _ in range(DEPTH + 4):
            await self.step(0.0, 1.0)
        assert not self.items


@cocotb.test()
@cocotb.parametrize(push=[0.2, 0.6, 1.0], pop=[0.2, 0.6, 1.0])
async def random_pauses(dut, push, pop):
    tb = TB(dut)
    await tb.reset()
    for _ in range(1500):
        await tb.step(push, pop)
    await tb.empty()
    assert tb.left > 250


@cocotb.test()
async def filled_to_the_brim(dut):
    """Runs of pushes without permission and of permissions without a push, at every place of the ring."""
    tb = TB(dut)
    await tb.reset()
    for _ in range(2 * DEPTH + 1):
        for _ in range(2 * DEPTH):
            await tb.step(1.0, 0.0)
        assert tb.credit == 0
        for _ in range(random.randint(1, DEPTH)):
            await tb.step(0.0, 1.0)
    assert tb.most == DEPTH
    await tb.empty()
