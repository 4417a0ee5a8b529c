# SPDX-License-Identifier: BSD-2-Clause
"""cocotb bench of RawRing: what comes while there is room, and as much as may follow, is read in order."""

import random
from collections import deque

import cocotb
from chosen_beat import BEAT
from lockstep import Lockstep

from inceptionn.hdl.engine.raw_ring import RawRing
from inceptionn.hdl.parts.memory import BlockRam
from inceptionn.sim.runner import bench_parameters

DEPTH = bench_parameters()["depth"]
BITS = BEAT.bits


class TB(Lockstep):
    """Writes as its caller likes and reads in order; every beat is due a fixed time after its address."""

    def __init__(self, dut):
        super().__init__(dut, pulses=("beats_valid",))

    async def start(self) -> None:
        self.dut.address.value = 0
        self.held: deque[int] = deque()
        self.address = 0
        self.fullest = 0
        await self.reset()
        while not self.read("room"):
            await self.cycle()
            assert self.now < 10, "never room"

    async def step(self, *, write: bool, read: bool) -> None:
        """One cycle, in which a beat comes, the reader passes one that is there, or both."""
        inputs = {"beats_valid": int(write), "beats_payload": random.getrandbits(BITS)}
        if self.held:
            self.due(BlockRam.LATENCY, beat=self.held[0])
        await self.cycle(**inputs)
        if read and self.held:
            self.held.popleft()
            self.address = (self.address + 1) % DEPTH
            self.dut.address.value = self.address
        if write:
            self.held.append(inputs["beats_payload"])
        self.fullest = max(self.fullest, len(self.held))


@TB.test()
@cocotb.parametrize(write=[1.0, 0.6], read=[1.0, 0.5, 0.1])
async def in_order(tb, write, read):
    """Any pace of the two sides; after ``room`` has fallen, as many more as may come."""
    credit = RawRing.SLACK
    for _ in range(20 * DEPTH):
        credit = RawRing.SLACK if tb.read("room") else credit
        wanted = credit > 0 and random.random() < write
        credit -= wanted and not tb.read("room")
        await tb.step(write=wanted, read=random.random() < read)
    assert tb.fullest < DEPTH
    assert read == 1.0 or tb.fullest > DEPTH - RawRing.SLACK
    while tb.held:
        await tb.step(write=False, read=True)
    await tb.drain()


@TB.test()
async def room_returns(tb):
    """Check that a full ring has room again as soon as its reader has passed the slack and three beats."""
    while tb.read("room"):
        await tb.step(write=True, read=False)
    for _ in range(RawRing.SLACK):
        await tb.step(write=True, read=False)
    assert len(tb.held) == DEPTH - 1
    while not tb.read("room"):
        await tb.step(write=False, read=True)
        assert tb.held, "no room in an empty ring"
    assert DEPTH - len(tb.held) <= RawRing.SLACK + 6


@TB.test()
async def room_at_every_level(tb):
    """At rest, beats may come while the slack and three more are free."""
    for held in range(DEPTH):
        for _ in range(3):
            await tb.step(write=False, read=False)
        assert tb.read("room") == (held < DEPTH - RawRing.SLACK - 3), held
        if held < DEPTH - 1:
            await tb.step(write=True, read=False)
