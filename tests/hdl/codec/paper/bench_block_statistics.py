# SPDX-License-Identifier: BSD-2-Clause
"""cocotb bench of BlockStatistics: sums and counts of every block, reported in their cycle."""

from __future__ import annotations

import random
from collections import defaultdict, deque
from typing import Any

import cocotb
import numpy as np
from compressor_blocks import (
    BEAT_BYTES,
    DEFAULT,
    WIDTH,
    Group,
    Packing,
    any_parameters,
    groups_of,
    some_lanes,
    some_length,
)
from lockstep import Lockstep
from reports import Report

from inceptionn.hdl.codec.alignment_unit import AlignmentUnit
from inceptionn.hdl.codec.paper.block_statistics import BlockStatistics, compressed_burst
from inceptionn.hdl.parts.beat import Beat
from inceptionn.sim.golden.values import KINDS
from inceptionn.wire import MAX_LANES, Parameters, Tag

LATENCY = BlockStatistics.latency_of(Beat(WIDTH))
PACKED = AlignmentUnit.latency_of(Beat(WIDTH))


class TB(Lockstep):
    """Sends a block's groups, and the Alignment Unit's beats when that would send them."""

    def __init__(self, dut):
        layouts = {"bursts_payload": compressed_burst(WIDTH)}
        pulses = ("bursts_valid", "beats_valid", "done")
        super().__init__(dut, pulses=pulses, quiet={"reports_valid": 0}, layouts=layouts)
        self.packing = Packing()
        self.reports: deque[Report] = deque()
        self._later: defaultdict[int, dict[str, int]] = defaultdict(dict)

    async def cycle(self, **inputs: Any) -> None:
        if self.read("reports_valid"):
            self.reports.popleft().check(self.read("reports_payload"))
        noise = {"beats_payload": random.getrandbits(8 * BEAT_BYTES), "block_bytes": random.getrandbits(14)}
        await super().cycle(**noise | self._later.pop(self.now, {}) | inputs)

    async def gap(self) -> None:
        await self.cycle(bursts_payload={})

    async def send(self, groups: list[Group], gaps: float = 0.0) -> None:
        """One block, and with 8 lanes the idle cycle after it."""
        report = Report.of(groups)
        for index, group in enumerate(groups):
            while random.random() < gaps:
                await self.gap()
            last = index == len(groups) - 1
            for extra, beat, done in self.packing.push(group.data, last, self.now):
                found = {"beats_payload": int.from_bytes(beat, "little")} if beat else {}
                moment = self.now + PACKED + extra
                self._later[moment] |= {"beats_valid": bool(beat), "done": done} | found
            if last:
                self._later[self.now + 3]["block_bytes"] = report.block_bytes
                self.due(LATENCY, reports_valid=1)
                self.reports.append(report)
            cleared = int.from_bytes(group.cleared.astype("<u4").tobytes(), "little")
            payload = {"last": last, "tags": group.tags, "present": group.present, "cleared": cleared}
            await self.cycle(bursts_valid=1, bursts_payload=payload)
        if not Beat(WIDTH).payload_overlaps:
            await self.gap()

    async def finish(self) -> None:
        await self.drain()
        assert not self.reports


@cocotb.test()
@cocotb.parametrize(gaps=[0.0, 0.4])
async def blocks_back_to_back(dut, gaps):
    """Every length to 40 lanes and some more, blocks as close as they may be."""
    tb = await TB.started(dut)
    counts = [*range(1, 41), *(some_length(random) for _ in range(20))]
    for count in random.sample(counts, len(counts)):
        params = random.choice([DEFAULT, any_parameters(random)])
        await tb.send(groups_of(some_lanes(count, params, random), params), gaps)
    await tb.finish()


@cocotb.test()
async def one_burst_each(dut):
    """The shortest blocks in the shortest distance, with data of every size."""
    tb = await TB.started(dut)
    for _ in range(400):
        await tb.send(groups_of(some_lanes(random.randint(1, WIDTH), DEFAULT, random), DEFAULT))
    await tb.finish()


@cocotb.test()
async def longest(dut):
    """2304 lanes of each kind, and those with the greatest sums."""
    tb = await TB.started(dut)
    for kind in KINDS.values():
        await tb.send(groups_of(kind(MAX_LANES, random), DEFAULT))
    ones = np.full(MAX_LANES, 0xFFFFFFFF, np.uint32)
    await tb.send(groups_of(ones, DEFAULT))
    # All bits but the exponent's are cleared, and more are set than in any other lane.
    await tb.send(groups_of(ones & 0x80FFFFFF, Parameters(127, 127, 127)))
    groups = groups_of(ones, DEFAULT)
    assert Report.of(groups).counts[Tag.RAW] == MAX_LANES
    await tb.finish()
