# SPDX-License-Identifier: BSD-2-Clause
"""What the benches of the queues share: a producer that uses all of its slack; a queue filled to the brim."""

import random
from collections import deque

from lockstep import Lockstep

from inceptionn.sim.runner import bench_parameters

PARAMETERS = bench_parameters()
TAKE = "o_room" if PARAMETERS.get("forward") else "o_ready"
WIDTH, DEPTH, SLACK = PARAMETERS["shape"], PARAMETERS["depth"], PARAMETERS["slack"]
LIMIT = DEPTH - SLACK - (not PARAMETERS.get("registers", 1))
"""Items with which ``room`` falls."""


class QueueBench(Lockstep):
    """A producer that pushes ``SLACK`` more items after ``room`` has fallen; each bench has its own consumer.

    ``places``: items that fit inside.
    """

    def __init__(self, dut, places: int, **quiet: int):
        super().__init__(dut, pulses=("i_valid", TAKE), quiet=quiet)
        self.places = places
        self.items: deque[tuple[int, int]] = deque()
        """Every item inside, with the cycle of its push."""
        self.credit = SLACK
        self.most = 0
        self.few_since = 0

    async def step(self, push: float, pop: float) -> None:
        """One cycle; ``push`` and ``pop`` are probabilities."""
        raise NotImplementedError

    def may_push(self, push: float) -> bool:
        """Whether the producer pushes in this cycle; checks ``room``. Before anything leaves."""
        room = self.read("room")
        assert not room or self.places - len(self.items) >= SLACK, f"room with {len(self.items)} items inside"
        self.few_since = self.few_since if len(self.items) < LIMIT else self.now + 1
        assert room or self.now <= self.few_since, f"cycle {self.now}: room rises late"
        self.credit = SLACK if room else self.credit
        wants = random.random() < push and bool(room or self.credit)
        self.credit -= wants and not room
        return wants

    async def end(self, wants: bool, pop: bool) -> None:
        """End the cycle, with an item if the producer pushes. Call this after the pop."""
        item = random.getrandbits(WIDTH)
        if wants:
            self.items.append((item, self.now))
            self.most = max(self.most, len(self.items))
        await self.cycle(i_valid=int(wants), i_payload=item, **{TAKE: int(pop)})

    async def empty(self) -> None:
        for _ in range(DEPTH + 4):
            await self.step(0.0, 1.0)
        assert not self.items
        assert self.read("room")

    async def fill_to_the_brim(self) -> None:
        """Without a pop, the queue takes as many items as its depth says, at every place of the ring."""
        for _ in range(2 * DEPTH + 1):
            for _ in range(2 * DEPTH):
                await self.step(1.0, 0.0)
            assert not self.read("room")
            assert self.credit == 0
            for _ in range(random.randint(1, DEPTH)):
                await self.step(0.0, 1.0)
        assert self.most == self.places, f"{self.most} items at most, but there are {self.places} places"
        await self.empty()
