# SPDX-License-Identifier: BSD-2-Clause
"""cocotb bench of ElasticRegister: every item once, in order, one per cycle, one cycle late."""

import random
from collections import deque

import cocotb
from lockstep import Lockstep

from inceptionn.sim.runner import bench_parameters

WIDTH = bench_parameters()["shape"]


class TB(Lockstep):
    """A source that keeps offering an item until it is taken, and a consumer; both at random."""

    def __init__(self, dut):
        super().__init__(dut, pulses=("i_valid", "o_ready"))
        self.items: deque[int] = deque()
        self.offered: int | None = None
        self.popped = 0

    async def step(self, offer: float, pop: float) -> None:
        """One cycle; ``offer`` and ``pop`` are probabilities."""
        valid, ready = self.read("o_valid"), self.read("i_ready")
        assert valid == bool(self.items), f"cycle {self.now}: valid is {valid} with {len(self.items)} inside"
        if valid:
            found = self.read("o_payload")
            assert found == self.items[0], f"cycle {self.now}: {found:#x}, not {self.items[0]:#x}"
        assert ready == (len(self.items) < 2), f"cycle {self.now}: ready is {ready}"
        if self.offered is None and random.random() < offer:
            self.offered = random.getrandbits(WIDTH)
        offered = self.offered
        takes = random.random() < pop
        if takes and valid:
            self.items.popleft()
            self.popped += 1
        if offered is not None and ready:
            self.items.append(offered)
            self.offered = None
        data = random.getrandbits(WIDTH) if offered is None else offered
        await self.cycle(i_valid=offered is not None, i_payload=data, o_ready=takes)


@TB.test()
@cocotb.parametrize(offer=[1.0, 0.7, 0.3], pop=[1.0, 0.7, 0.3])
async def in_order(tb, offer, pop):
    for _ in range(400):
        await tb.step(offer, pop)
    if offer == pop == 1.0:
        assert tb.popped >= 398
    for _ in range(4):
        await tb.step(0.0, 1.0)
    assert not tb.items
    assert tb.offered is None


@TB.test()
async def reset_while_full(tb):
    """Check that a reset of a single cycle empties both places."""
    for _ in range(10):
        for _ in range(3):
            await tb.step(1.0, 0.0)
        assert len(tb.items) == 2
        for aresetn in (0, 1):  # it arrives a cycle later
            tb.dut.aresetn.value = aresetn
            await tb.cycle()
        tb.items.clear()
        tb.offered = None
        for _ in range(6):
            await tb.step(0.5, 0.5)
