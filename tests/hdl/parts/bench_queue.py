# SPDX-License-Identifier: BSD-2-Clause
"""cocotb bench of what holds items in one clock: nothing lost with all slack used, nothing early or late.

Those are queues to a pull stream, the one that pushes its items on (``forward``), and the elastic register,
whose ``i_ready`` is exact (no ``slack``).
"""

import random
from collections import deque

import cocotb
from lockstep import Lockstep

from inceptionn.sim.runner import bench_parameters

PARAMETERS = bench_parameters()
WIDTH, DEPTH, SLACK = PARAMETERS["shape"], PARAMETERS["depth"], PARAMETERS["slack"]
REGISTERS = PARAMETERS.get("registers", 1)
"""Items that fit inside beside those of the memory."""
LATENCY = PARAMETERS.get("latency", 2)
"""Cycles from a push until the item can be popped; the cycle in which it shows if it is pushed on."""
FORWARD = PARAMETERS.get("forward", False)
TAKE, ROOM = "o_room" if FORWARD else "o_ready", "room" if SLACK else "i_ready"
LIMIT = DEPTH - SLACK - (not REGISTERS)
"""Items with which ``room`` falls."""


class TB(Lockstep):
    """A producer that pushes ``SLACK`` more items after ``room`` has fallen, and a consumer, at random."""

    def __init__(self, dut):
        super().__init__(dut, pulses=("i_valid", TAKE), quiet={"o_valid": 0} if FORWARD else {})
        self.items: deque[tuple[int, int]] = deque()
        """Every item inside, with the cycle of its push."""
        self.credit = SLACK
        self.most = self.few_since = self.popped = 0

    def _may_push(self) -> bool:
        """Whether the producer may push in this cycle; checks ``room``."""
        room, held = bool(self.read(ROOM)), len(self.items)
        if not SLACK:
            assert room == (held < DEPTH), f"cycle {self.now}: ready is {room}"
            return room
        assert not room or DEPTH + REGISTERS - held >= SLACK, f"room with {held} items inside"
        self.few_since = self.few_since if held < LIMIT else self.now + 1
        assert room or self.now <= self.few_since, f"cycle {self.now}: room rises late"
        self.credit = SLACK if room else self.credit
        return bool(room or self.credit)

    async def step(self, push: float, pop: float) -> None:
        """One cycle; ``push`` and ``pop`` are probabilities."""
        # A push LATENCY cycles ago can leave; so an older item is at the output, and no younger one.
        due = bool(self.items) and self.items[0][1] <= self.now - LATENCY
        if not FORWARD:
            assert self.read("o_valid") == due, f"cycle {self.now}: valid is not {due}"
            assert not due or self.read("o_payload") == self.items[0][0], f"cycle {self.now}: wrong item"
        may, offers, takes = self._may_push(), random.random() < push, random.random() < pop
        if takes and due:
            item, _ = self.items.popleft()
            self.popped += 1
            if FORWARD:
                self.due(1, o_valid=1, o_payload=item)
        item = random.getrandbits(WIDTH)
        if offers and may:
            self.credit -= bool(SLACK) and not self.read(ROOM)
            self.items.append((item, self.now))
            self.most = max(self.most, len(self.items))
        # Only a register may be offered what it does not take.
        await self.cycle(i_valid=offers and (may or not SLACK), i_payload=item, **{TAKE: takes})

    async def empty(self) -> None:
        for _ in range(DEPTH + 4):
            await self.step(0.0, 1.0)
        assert not self.items
        assert self.read(ROOM)


@TB.test()
async def filled_to_the_brim(tb):
    """Without a pop, as many items enter as there are places, at every place of the ring."""
    for _ in range(2 * DEPTH + 1):
        for _ in range(2 * DEPTH):
            await tb.step(1.0, 0.0)
        assert not tb.read(ROOM)
        assert tb.credit == 0
        for _ in range(random.randint(1, DEPTH)):
            await tb.step(0.0, 1.0)
    assert tb.most == DEPTH + REGISTERS
    await tb.empty()


@TB.test()
async def one_item_per_cycle(tb):
    """Check that, if neither end pauses, there is room always, and each item leaves after its latency."""
    for _ in range(300):
        assert tb.read(ROOM)
        await tb.step(1.0, 1.0)
        assert len(tb.items) <= LATENCY + 1
    assert tb.popped == 300 - LATENCY
    await tb.empty()


@TB.test()
@cocotb.parametrize(push=[0.1, 0.5, 1.0], pop=[0.1, 0.5, 1.0])
async def random_pauses(tb, push, pop):
    for _ in range(800):
        await tb.step(push, pop)
    await tb.empty()
    assert tb.popped > 50


@TB.test()
async def bursts(tb):
    """Check runs of pushes and of pops, so that it is often full and often empty."""
    for _ in range(60):
        push, pop = random.choice([(1.0, 0.0), (0.0, 1.0), (1.0, 1.0), (0.0, 0.0), (0.5, 0.9)])
        for _ in range(random.randint(1, 2 * DEPTH)):
            await tb.step(push, pop)
    await tb.empty()


@TB.test()
async def reset_empties(tb):
    """Reset for a single cycle, with all places full."""
    for _ in range(10):
        for _ in range(DEPTH + REGISTERS):
            await tb.step(1.0, 0.0)
        for aresetn in (0, 1, 1):  # it arrives a cycle later
            tb.dut.aresetn.value = aresetn
            await tb.cycle()
        tb.items.clear()
        for _ in range(10):
            await tb.step(0.0, 1.0)
        for _ in range(50):
            await tb.step(0.5, 0.5)
    await tb.empty()
