# SPDX-License-Identifier: BSD-2-Clause
"""cocotb bench of ForwardQueue: every item once, in its cycle, for each permission to leave."""

import random

import cocotb
from queue_bench import DEPTH, QueueBench


class TB(QueueBench):
    """With a consumer that permits items to leave at random."""

    def __init__(self, dut):
        super().__init__(dut, DEPTH, o_valid=0)
        self.left = 0

    async def step(self, push: float, pop: float) -> None:
        wants, permits = self.may_push(push), random.random() < pop
        # An item can leave in the cycle after its push, and shows one later.
        if permits and self.items and self.items[0][1] < self.now:
            self.due(1, o_valid=1, o_payload=self.items.popleft()[0])
            self.left += 1
        await self.end(wants, permits)


@TB.test()
@cocotb.parametrize(push=[0.2, 0.6, 1.0], pop=[0.2, 0.6, 1.0])
async def random_pauses(tb, push, pop):
    for _ in range(1500):
        await tb.step(push, pop)
    await tb.empty()
    assert tb.left > 250


@TB.test()
async def filled_to_the_brim(tb):
    await tb.fill_to_the_brim()
