# SPDX-License-Identifier: BSD-2-Clause
"""cocotb bench of Compressor: bursts in at any place of a beat, blocks and their statistics out.

Its BlockStatistics are checked here alone.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import cocotb
import numpy as np
from block_reader import BlockReader
from chosen_width import WIDTH
from cocotb.triggers import FallingEdge
from compressor_blocks import (
    ALL_PARAMETERS,
    CODEC,
    DEFAULT,
    LANES,
    LENGTHS,
    TYPES,
    WORDS,
    Group,
    any_parameters,
    groups_of,
    some_lanes,
    some_length,
    table_of,
)

from inceptionn.hdl.codec.codecs import codec_of
from inceptionn.hdl.codec.compressor import CodecParameters, lane_burst
from inceptionn.sim.golden.codec import Bits
from inceptionn.sim.golden.values import KINDS
from inceptionn.wire import FP32_LANES, GROUP_LANES, MAX_LANES, LaneType, Parameters

READY = {"paper": {8: 22, 16: 26}, "planes": {8: 20, 16: 24}}[CODEC][LANES]
"""Cycles from a block's last burst until it can be read, as the component promises."""
LATE = {8: 8, 16: 16}[LANES]
"""Bursts that may follow after ``room`` has fallen."""
HOLD = 2
"""Cycles that codec parameters hold after a block's last burst."""


def idle_cycles(groups: int, place: int) -> int:
    """Cycles after a block that its table needs; with 8 lanes always one, with 16 only for tags."""
    if not WIDTH.payload_overlaps:
        return 1
    if CODEC == "planes":
        return 0
    return groups % 2 == 0 and (place + groups) % WORDS == 1


def little_endian_sum(data: bytes) -> int:
    """Sum of 16-bit words, an odd last byte being the low half of one."""
    return int(np.frombuffer(data + bytes(len(data) % 2), "<u2").sum(dtype=np.int64))


@dataclass(frozen=True)
class Report:
    """A block in numbers; sums are compared modulo 65535."""

    block_bytes: int
    block_sum: int
    cleared_sum: int
    counts: tuple[int, ...]
    """Lanes by tag, or groups by code."""

    @classmethod
    def of(cls, groups: list[Group]) -> Report:
        block = table_of(groups) + b"".join(group.data for group in groups)
        cleared = b"".join(group.cleared.astype("<u4").tobytes() for group in groups)
        if CODEC == "planes":
            classes = Counter(code for group in groups for code in group.codes)
        else:
            classes = Counter(
                group.tags >> 2 * lane & 3
                for group in groups
                for lane in range(LANES)
                if group.present >> lane & 1
            )
        counts = tuple(classes[number] for number in range(len(codec_of(CODEC).spec.classes)))
        return cls(len(block), little_endian_sum(block), little_endian_sum(cleared), counts)

    def check(self, bits: int) -> None:
        """``AssertionError`` unless the hardware's report says the same."""
        found = codec_of(CODEC).statistics.as_shape().from_bits(bits)
        assert found.block_bytes == self.block_bytes, f"{found.block_bytes} bytes, not {self.block_bytes}"
        counts = tuple(found.counts)
        assert counts == self.counts, f"counts {counts}, not {self.counts}"
        for name in ("block_sum", "cleared_sum"):
            one, other = found[name], getattr(self, name)
            assert (one - other) % 0xFFFF == 0, f"{name} is {one}, not {other % 0xFFFF}"


class TB(BlockReader):
    """Sends blocks, reads or drops them at random, and checks beats and statistics."""

    def __init__(self, dut):
        layouts = {"parameters": CodecParameters.as_shape(), "bursts_payload": lane_burst(WIDTH)}
        super().__init__(dut, pulses=("bursts_valid",), layouts=layouts)
        self.reports: deque[Report] = deque()
        self.params: Parameters | None = None
        self.held_until = 0
        self.sent = 0
        """Cycle of the last burst."""
        self.credit = LATE
        self.stalled = False
        self.step_probability, self.drop_probability = 1.0, 0.0

    async def tick(self, **inputs: Any) -> None:
        """One cycle, in which the reader does what it does."""
        if self.read("statistics_valid"):
            self.reports.popleft().check(self.read("statistics_payload"))
        if "bursts_valid" not in inputs:
            inputs["bursts_payload"] = {}  # noise
        if self.read("room"):
            self.credit = LATE
        await self.cycle(**inputs, **self.reading(self.step_probability, self.drop_probability))

    async def _setting(self, params: Parameters) -> None:
        """Set new codec parameters, when those of the block before need hold no longer."""
        if params == self.params:
            return
        while self.now <= self.held_until:
            await self.tick()
        self.write("parameters", {"e0": params.e0, "t": params.t, "b": params.b})
        self.params = params

    async def _enter(self, group: Group, first: bool, last: bool, place: int) -> None:
        while not self.read("room") and not self.credit:
            self.stalled = True
            await self.tick()
        self.credit -= not self.read("room")
        burst = {"first": first, "last": last, "lanes": group.burst, "present": group.present}
        # After the first burst, the place means nothing.
        where = {"place": place} if first else {}
        await self.tick(bursts_valid=1, bursts_payload=burst | where)

    async def send(
        self,
        lanes: Bits,
        params: Parameters = DEFAULT,
        place: int | None = None,
        gaps: float = 0.0,
        kind: LaneType = FP32_LANES,
    ) -> None:
        """Send a block, and the idle cycle after it, where it needs one."""
        place = random.randrange(WORDS) if place is None else place
        await self._setting(replace(params, e0=params.e0 + kind.shim_offset))
        groups = groups_of(lanes, params, kind)
        table = table_of(groups)
        for index, group in enumerate(groups):
            while random.random() < gaps:
                await self.tick()
            last = index == len(groups) - 1
            if last:
                self.expect_block(table, b"".join(group.data for group in groups), place)
                self.reports.append(Report.of(groups))
                self.held_until = self.now + HOLD
            await self._enter(group, index == 0, last, place)
        self.sent = self.now - 1
        for _ in range(idle_cycles(-(-len(lanes) // GROUP_LANES), place)):
            await self.tick()

    async def finish(self) -> None:
        """Until every block was read and every report came."""
        self.step_probability = max(self.step_probability, 0.5)
        while self.blocks or self.reports:
            await self.tick()
        for _ in range(50):
            await self.tick()
        await self.drain()
        assert self.read("room")


@TB.test()
async def high_counts(tb):
    """Send long blocks with all values of one size, so that each class counts about 100 groups."""
    for exponent, groups in product(range(3, -13, -1), (100, 101)):
        count = groups * GROUP_LANES
        values = np.float32(2.0**exponent) * np.linspace(1, 1.99, count, dtype=np.float32)
        await tb.send(values.view(np.uint32))
    await tb.finish()


@TB.test()
async def greatest_sums(tb):
    """2304 lanes of each kind, and those with the greatest sums; then blocks of a burst, of any size."""
    ones = np.full(MAX_LANES, 0xFFFFFFFF, np.uint32)
    for lanes in (*(kind(MAX_LANES, random) for kind in KINDS.values()), ones):
        await tb.send(lanes)
    if CODEC == "paper":  # all bits but the exponent's are cleared, and more are set than in any other lane
        await tb.send(ones & 0x80FFFFFF, Parameters(127, 127, 127))
    for _ in range(300):
        await tb.send(some_lanes(random.randint(1, LANES), DEFAULT, random))
    await tb.finish()


@TB.test()
async def every_setting(tb):
    """All bounds and modes, all kinds of values, and other numbers; they change as soon as they may."""
    for params in [*ALL_PARAMETERS, *(any_parameters(random) for _ in range(40))]:
        for _ in range(3):
            kind = random.choice(TYPES)
            await tb.send(some_lanes(random.randint(1, 40), params, random, kind), params, kind=kind)
    await tb.finish()


@TB.test()
async def every_length_and_place(tb):
    """Lengths that matter, each at a place of its own, and every place with the shortest."""
    for index, count in enumerate(LENGTHS):
        kind = random.choice(TYPES)
        await tb.send(some_lanes(count, DEFAULT, random, kind), place=(5 * index) % WORDS, kind=kind)
    for place in range(WORDS):
        for count in (1, 8, 9, 16, 17, 120, 128, 129, 256, 257):
            await tb.send(some_lanes(count, DEFAULT, random), place=place)
    await tb.finish()


@TB.test()
@cocotb.parametrize(gaps=[0.0, 0.3], step=[0.2, 0.8], drop=[0.0, 0.4])
async def pauses_and_drops(tb, gaps, step, drop):
    tb.step_probability, tb.drop_probability = step, drop
    for _ in range(30):
        kind = random.choice(TYPES)
        await tb.send(some_lanes(some_length(random), DEFAULT, random, kind), gaps=gaps, kind=kind)
    await tb.finish()
    assert bool(tb.dropped) == (drop > 0)


@TB.test()
@cocotb.parametrize(count=[1, 8, 120, 362, MAX_LANES], kind=["zeros", "large", "edges"])
async def reader_asleep(tb, count, kind):
    """Bursts come until ``room`` falls, and some more; then the reader wakes, and all is there."""
    tb.step_probability = 0.0
    lanes = KINDS[kind](count, random)

    async def wake() -> None:
        while not tb.stalled:
            await FallingEdge(tb.dut.aclk)
        tb.step_probability = 0.9

    cocotb.start_soon(wake())
    # Blocks of zeros have no data with planes: their number fills the store.
    many = count < MAX_LANES or (CODEC, kind) == ("planes", "zeros")
    for _ in range(70 if many else LANES):
        await tb.send(lanes)
    assert tb.stalled
    await tb.finish()


@TB.test()
async def room_is_for_the_longest(tb):
    """``room`` does not fall in a block of 2304 lanes, with another one like it being read."""
    for _ in range(3):
        await tb.send(KINDS["large"](MAX_LANES, random), place=0)
        assert tb.credit == LATE
    await tb.finish()


@TB.test()
async def can_be_read_in_time(tb):
    """In exactly the cycle promised, whatever its length."""
    for count in (1, 8, 9, 64, 362):
        for kind in ("zeros", "large", "edges"):
            tb.step_probability = 0.0
            await tb.send(KINDS[kind](count, random))
            while not tb.read("blocks_valid"):
                await tb.tick()
            found = tb.now - tb.sent
            assert found == READY, f"{count} lanes of {kind}: {found} cycles"
            # The transmit assembler waits for the report's order, and not for the block.
            assert tb.reports, "the report came before the block can be read"
            tb.step_probability = 1.0
            await tb.finish()


@TB.test()
async def reset_in_the_middle(tb):
    """Check that what is inside at reset never comes out, and that what follows is right."""
    tb.step_probability = 0.0
    for _ in range(3):
        await tb.send(some_lanes(100, DEFAULT, random))
    tb.step_probability = 1.0
    for _ in range(6):
        await tb.tick()
    await tb.reset()
    tb.blocks.clear()
    tb.reports.clear()
    tb.at = 0
    for _ in range(60):
        assert not tb.read("blocks_valid")
        await tb.tick()
    for _ in range(10):
        await tb.send(some_lanes(some_length(random), DEFAULT, random))
    await tb.finish()
