# SPDX-License-Identifier: BSD-2-Clause
"""cocotb bench of parts that have no other inside, each against a few lines of Python; parameter ``part``.

Most have proofs by induction; the bench shows each part at work, and what no cycle of a proof is long enough
for.
"""

import random
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import cocotb
import numpy as np
from chosen_width import WIDTH
from cocotb.triggers import ClockCycles, FallingEdge, RisingEdge
from compressor_blocks import BEAT_BYTES, Packing
from lockstep import Lockstep

from inceptionn.hdl.codec.alignment_unit import AlignmentUnit, block_vector
from inceptionn.hdl.engine.raw_ring import RawRing
from inceptionn.hdl.parts.checksum import OnesComplementSum
from inceptionn.hdl.parts.memory import BlockRam
from inceptionn.sim.golden.checksum import fold
from inceptionn.sim.runner import bench_parameters
from inceptionn.wire import GROUP_LANES, MAX_LANES, TAG_WORD_BYTES

PARAMETERS = bench_parameters()


# AlignmentUnit: every fill level meets every size, and every beat comes in its cycle.


async def align(tb: Lockstep, packing: Packing, sizes: list[int], gaps: float = 0.0) -> int:
    """Send a block with vectors of these sizes and, with 8 lanes, an idle cycle after it; count its beats."""
    beats = 0
    for index, size in enumerate(sizes):
        while random.random() < gaps:
            await tb.cycle(vectors_payload={"data": 0})
        last, vector = index == len(sizes) - 1, random.randbytes(size)
        for extra, beat, done in packing.push(vector, last, tb.now):
            found = {"beats_payload": int.from_bytes(beat, "little")} if beat else {}
            tb.due(AlignmentUnit.latency_of(WIDTH) + extra, beats_valid=bool(beat), done=done, **found)
            beats += bool(beat)
        payload = {"last": last, "size": size, "data": int.from_bytes(vector, "little")}
        await tb.cycle(vectors_valid=1, vectors_payload=payload)
    if not WIDTH.payload_overlaps:
        await tb.cycle(vectors_payload={"data": 0})
    return beats


async def every_level_and_size(tb: Lockstep) -> None:
    """All levels before all sizes, within a block and at its end; full vectors at every offset."""
    packing = Packing()
    cases = [(level, size) for level in range(BEAT_BYTES) for size in range(BEAT_BYTES + 1)]
    random.shuffle(cases)
    for level, size in cases:
        await align(tb, packing, [level, size])
    sizes, level = [], 0
    for want, size in cases:
        sizes += [(want - level) % BEAT_BYTES, size]
        level = (want + size) % BEAT_BYTES
    await align(tb, packing, sizes)
    for level in range(BEAT_BYTES):
        await align(tb, packing, [level] + [BEAT_BYTES] * 20)


async def blocks_back_to_back(tb: Lockstep) -> None:
    """Blocks of one vector and more, as close as they may be; empty ones and full ones as well."""
    packing, full, beats = Packing(), BEAT_BYTES, 0
    choices = [[0], [full], [0, full], [1], [full - 1], [full, 1], [0, 1, 2, 4], range(full + 1)]
    for number in range(600):
        sizes = random.choices(random.choice(choices), k=random.choice([1, 1, 2, 3, 20]))
        beats += await align(tb, packing, sizes, 0.5 * (number % 2))
    assert beats > 1000


# OnesComplementSum: exact sums, each in its cycle, the longest included.

LONGEST = (MAX_LANES * 4 + MAX_LANES // GROUP_LANES * TAG_WORD_BYTES) // BEAT_BYTES
"""Beats of the longest block: of raw lanes 288, and 18 of tags; half of them with 16 lanes."""
ONES = b"\xff" * BEAT_BYTES


async def add(tb: Lockstep, data: bytes, gaps: float = 0.0, alone: bool = False) -> None:
    """Send the beats of a sum; ``alone``: its ``last`` comes in a cycle of its own, without a beat."""
    data += bytes(-len(data) % BEAT_BYTES)
    total = int(np.frombuffer(data, "<u2").sum(dtype=np.int64))
    steps: list[bytes | None] = [data[at : at + BEAT_BYTES] for at in range(0, len(data), BEAT_BYTES)]
    steps += [None] * alone
    for index, beat in enumerate(steps):
        while random.random() < gaps:
            await tb.cycle(beat=random.getrandbits(8 * BEAT_BYTES))
        last = index == len(steps) - 1
        if last:
            tb.due(OnesComplementSum.latency_of(WIDTH), sums_valid=1, sums_payload=fold(total))
        shown = random.getrandbits(8 * BEAT_BYTES) if beat is None else int.from_bytes(beat, "little")
        await tb.cycle(valid=beat is not None, last=last, beat=shown)


async def sums_back_to_back(tb: Lockstep) -> None:
    """Check sums of one beat in every cycle, of none, and longer ones, in any order without idle cycles."""
    for number in range(1000):
        count = random.choice([0, 1, 1, 1, 2, 5, 30])
        beats = (random.choice([bytes(BEAT_BYTES), ONES, random.randbytes(BEAT_BYTES)]) for _ in range(count))
        await add(tb, b"".join(beats), 0.4 * (number % 2), count == 0 or random.random() < 0.3)


async def edges_of_sums(tb: Lockstep) -> None:
    """Only words that are all 0 sum to 0, any other multiple of 65535 is 0xFFFF; the longest; each carry."""
    for data in (bytes(BEAT_BYTES), ONES, ONES * 2, ONES * LONGEST, b"\xff\xfe" * (len(ONES * LONGEST) // 2)):
        await add(tb, data)
    for lane in range(BEAT_BYTES // 2):
        await add(tb, (bytes(2 * lane) + b"\1").ljust(BEAT_BYTES, b"\0") + b"\xfe\xff")
    # Totals whose upper bits carry the lower 16 past their end, and those of which one bit alone decides.
    uppers = [*(BEAT_BYTES // 2 * beats - 1 for beats in range(1, 40)), *(1 << bit for bit in range(4, 13))]
    for upper in uppers:
        total = (upper + 1 << 16) - upper
        await add(tb, np.array([0xFFFF] * (total // 0xFFFF) + [total % 0xFFFF], "<u2").tobytes())
    # In one beat, totals whose upper and lower bits sum to 0x10000.
    count = BEAT_BYTES // 2
    for upper in [*range(1, count - 1)] * 10:
        total = (upper + 1 << 16) - upper
        words = [total // count] * count
        words[0] += total % count
        for _ in range(20):
            giver, taker = random.sample(range(count), 2)
            moved = random.randint(0, min(words[giver], 0xFFFF - words[taker]))
            words[giver] -= moved
            words[taker] += moved
        await add(tb, np.array(words, "<u2").tobytes())


async def sum_holds(tb: Lockstep) -> None:
    """Between two results the first one stays, whatever goes on after it."""
    await add(tb, b"\x01\x02" * (BEAT_BYTES // 2))
    for _ in range(40):
        tb.due(OnesComplementSum.latency_of(WIDTH), sums_payload=fold(0x0201 * BEAT_BYTES // 2))
        await tb.cycle(valid=1, beat=random.getrandbits(8 * BEAT_BYTES))


# BlockRam and LutRam: what was written last is read, after the memory's latency.


async def reads_and_writes(tb: Lockstep) -> None:
    """Read zeros first, then every address while others, or the one before, are written.

    What a block RAM reads where it writes is undefined.
    """
    width, depth, latency = (PARAMETERS[name] for name in ("width", "depth", "latency"))
    words, dut = [0] * depth, tb.dut
    shuffled, any_order = random.sample(range(depth), depth), random.choices(range(depth), k=2500)
    accesses = [(address, None) for address in range(depth)]
    accesses += [*((0, address) for address in shuffled), *((address, None) for address in shuffled)]
    accesses += [(read, random.choice([None, random.randrange(depth)])) for read in any_order]
    accesses += zip(any_order, any_order[1:], strict=False)
    for read, write in accesses:
        word = random.getrandbits(width)
        dut.read_address.value = read
        dut.write_address.value = random.randrange(depth) if write is None else write
        dut.write_data.value = word
        if latency == 0:
            # The answer is there before the rising edge, at which the new word is stored.
            dut.write.value = write is not None
            await RisingEdge(dut.aclk)
            assert tb.read("read_data") == words[read], f"address {read}"
            await FallingEdge(dut.aclk)
        else:
            if read != write:
                tb.due(latency, read_data=words[read])
            await tb.cycle(write=write is not None)
        if write is not None:
            words[write] = word
    dut.write.value = 0


# EventCounters: the sums, which a reset keeps.


async def events_are_counted(tb: Lockstep) -> None:
    """Every slot, at random, through the end of 64 bits, then as close as may be to a carry of 13 bits."""
    dut, slots = tb.dut, PARAMETERS["slots"]
    closest = (slots + 2) // 3  # cycles between pulses that never come four to a sweep
    sums = [PARAMETERS["start"]] * slots

    async def pulse(events: int) -> None:
        dut.events.value = events
        sums[:] = [count + (events >> slot & 1) for slot, count in enumerate(sums)]
        await RisingEdge(dut.aclk)
        dut.events.value = 0

    async def check() -> None:
        await ClockCycles(dut.aclk, slots + 1)
        for slot, count in enumerate(sums):
            dut.slot.value = slot
            await ClockCycles(dut.aclk, slots + 2)
            assert int(dut.value.value) == count % (1 << 64), slot

    await check()
    for _ in range(2):
        rest = [random.randrange(closest) for _ in range(slots)]
        for _ in range(4000):
            events = sum(1 << slot for slot in range(slots) if rest[slot] == 0)
            gaps = random.choices((closest, closest, slots - 1, slots, 3 * slots), k=slots)
            rest = [(left or gap) - 1 for left, gap in zip(rest, gaps, strict=True)]
            await pulse(events)
        await check()
        await tb.reset()
        await check()
    for _ in range(4100):
        await pulse((1 << slots) - 1)
        await ClockCycles(dut.aclk, closest - 1)
    assert min(sums) - PARAMETERS["start"] > 4096
    await check()


# RawRing: what comes while there is room, and as much as may follow, is read in order.


class Ring:
    """Writes as its caller likes and reads in order; every beat is due a fixed time after its address."""

    def __init__(self, tb: Lockstep):
        self.tb, self.depth = tb, PARAMETERS["depth"]
        self.held: deque[int] = deque()
        self.address = self.fullest = 0

    async def step(self, *, write: bool = False, read: bool = False) -> None:
        """One cycle, in which a beat comes, the reader passes one that is there, or both."""
        beat = random.getrandbits(WIDTH.bits)
        if self.held:
            self.tb.due(BlockRam.LATENCY, beat=self.held[0])
        await self.tb.cycle(beats_valid=write, beats_payload=beat)
        if read and self.held:
            self.held.popleft()
            self.address = (self.address + 1) % self.depth
            self.tb.dut.address.value = self.address
        self.held.extend([beat] * write)
        self.fullest = max(self.fullest, len(self.held))


async def in_order(tb: Lockstep) -> None:
    """Any pace of the two sides; after ``room`` has fallen, as many more as may come."""
    for writing in (1.0, 0.6):
        for reading in (1.0, 0.5, 0.1):
            await tb.reset()
            tb.dut.address.value = 0
            ring, credit = Ring(tb), 0
            for _ in range(20 * ring.depth):
                credit = RawRing.SLACK if tb.read("room") else credit
                write = credit > 0 and random.random() < writing
                credit -= write and not tb.read("room")
                await ring.step(write=write, read=random.random() < reading)
            assert ring.fullest < ring.depth
            assert reading == 1.0 or ring.fullest > ring.depth - RawRing.SLACK
            while ring.held:
                await ring.step(read=True)
            await tb.drain()


async def room_at_every_level(tb: Lockstep) -> None:
    """At rest, beats may come while the slack and three more are free; so room returns as beats are read."""
    ring = Ring(tb)
    tb.dut.address.value = 0
    for held in range(ring.depth):
        for _ in range(3):
            await ring.step()
        assert tb.read("room") == (held < ring.depth - RawRing.SLACK - 3), held
        if held < ring.depth - 1:
            await ring.step(write=True)
    while not tb.read("room"):
        await ring.step(read=True)
        assert ring.held, "no room in an empty ring"
    assert ring.depth - len(ring.held) <= RawRing.SLACK + 6


@dataclass(frozen=True)
class Leaf:
    """A part's tests, and what a `Lockstep` is told of its ports."""

    tests: tuple[Callable[[Lockstep], Awaitable[None]], ...]
    pulses: tuple[str, ...] = ()
    quiet: dict[str, int] = field(default_factory=dict)
    layouts: dict[str, Any] = field(default_factory=dict)


MEMORY = Leaf((reads_and_writes,), ("write",))
LEAVES = {
    "alignment_unit": Leaf(
        (every_level_and_size, blocks_back_to_back), ("vectors_valid",), {"beats_valid": 0, "done": 0},
        {"vectors_payload": block_vector(WIDTH)},
    ),
    "checksum": Leaf((sums_back_to_back, edges_of_sums, sum_holds), ("valid", "last"), {"sums_valid": 0}),
    "memory": MEMORY,
    "lut_ram": MEMORY,
    "event_counters": Leaf((events_are_counted,), ("events", "slot")),
    "raw_ring": Leaf((in_order, room_at_every_level), ("beats_valid",)),
}  # fmt: skip
LEAF = LEAVES[PARAMETERS["part"]]


@cocotb.test()
@cocotb.parametrize(name=[test.__name__ for test in LEAF.tests])
async def shows(dut, name):
    """Each of the part's tests."""
    tb = Lockstep(dut, LEAF.pulses, LEAF.quiet, layouts=LEAF.layouts)
    await tb.start()
    await globals()[name](tb)
    await tb.drain()
