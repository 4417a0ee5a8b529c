# SPDX-License-Identifier: BSD-2-Clause
"""cocotb bench of both codecs' BlockStatistics: sums and counts of every block, reported in their cycle."""

import random
from collections import defaultdict, deque
from typing import Any

import cocotb
import numpy as np
from block_reports import Report
from chosen_beat import BEAT
from compressor_blocks import (
    BEAT_BYTES,
    CODEC,
    DEFAULT,
    TYPES,
    WIDTH,
    Group,
    Packing,
    any_parameters,
    groups_of,
    some_lanes,
    some_length,
    table_of,
)
from lockstep import Lockstep

from inceptionn.hdl.codec.alignment_unit import AlignmentUnit
from inceptionn.hdl.codec.block_statistics import BlockStatistics
from inceptionn.hdl.codec.paper.block_statistics import compressed_burst
from inceptionn.hdl.codec.planes.block_statistics import burst_gain, coded_burst
from inceptionn.hdl.codec.planes.lane_quantiser import LaneQuantiser
from inceptionn.hdl.codec.planes.plane_unit import PlaneUnit
from inceptionn.hdl.codec.word_table import table_words
from inceptionn.sim.golden.values import KINDS
from inceptionn.wire import (
    CODE_WORD_BYTES,
    CODE_WORD_GROUPS,
    GROUP_LANES,
    MAX_LANES,
    RAW_CODE,
    Parameters,
    Tag,
)

PLANES = CODEC == "planes"
LEAD = PlaneUnit.latency_of(BEAT) - LaneQuantiser.LATENCY if PLANES else 0
"""Cycles from what a burst's lanes gained to its vector."""
LATENCY = LEAD + BlockStatistics.latency_of(BEAT)
PACKED = AlignmentUnit.latency_of(BEAT)


class TB(Lockstep):
    """Sends a block's groups, and the Alignment Unit's beats when that would send them."""

    def __init__(self, dut):
        pulses = ("bursts_valid", "beats_valid", "done")
        layouts = {"bursts_payload": compressed_burst(BEAT)}
        if PLANES:
            pulses += ("gains_valid", "words_valid")
            layouts = {
                "bursts_payload": coded_burst(BEAT),
                "gains_payload": burst_gain(BEAT),
                "words_payload": table_words(BEAT),
            }
        super().__init__(dut, pulses=pulses, quiet={"reports_valid": 0}, layouts=layouts)
        self.packing = Packing()
        self.reports: deque[Report] = deque()
        self._later: defaultdict[int, dict[str, Any]] = defaultdict(dict)

    async def cycle(self, **inputs: Any) -> None:
        if self.read("reports_valid"):
            self.reports.popleft().check(self.read("reports_payload"))
        noise: dict[str, Any] = {"beats_payload": random.getrandbits(8 * BEAT_BYTES)}
        noise |= {"block_bytes": random.getrandbits(14), "bursts_payload": {}}
        if PLANES:  # the Code Table's `last` is low without `valid`
            noise |= {"gains_payload": {}, "words_payload": {"last": 0}}
        await super().cycle(**noise | self._later.pop(self.now, {}) | inputs)

    async def gap(self) -> None:
        await self.cycle()

    async def send(self, groups: list[Group], gaps: float = 0.0) -> None:
        """One block, and with 8 lanes the idle cycle after it."""
        report, table, codes = Report.of(groups), table_of(groups), 0
        for index, group in enumerate(groups):
            while random.random() < gaps:
                await self.gap()
            last = index == len(groups) - 1
            at = self.now + LEAD
            for extra, beat, done in self.packing.push(group.data, last, at):
                found = {"beats_payload": int.from_bytes(beat, "little")} if beat else {}
                moment = at + PACKED + extra
                self._later[moment] |= {"beats_valid": bool(beat), "done": done} | found
            if last:
                self._later[at + 3]["block_bytes"] = report.block_bytes
                self.due(LATENCY, reports_valid=1)
                self.reports.append(report)
            if not PLANES:
                cleared = int.from_bytes(group.cleared.astype("<u4").tobytes(), "little")
                payload = {"last": last, "tags": group.tags, "present": group.present, "cleared": cleared}
                await self.cycle(bursts_valid=1, bursts_payload=payload)
                continue
            burst = {"last": last, "codes": group.tags}
            if WIDTH > GROUP_LANES:
                burst["upper"] = group.count == WIDTH // GROUP_LANES
            self._later[at] |= {"bursts_valid": 1, "bursts_payload": burst}
            codes += group.count
            if last or codes % CODE_WORD_GROUPS == 0:
                start = (codes - 1) // CODE_WORD_GROUPS * CODE_WORD_BYTES
                word = int.from_bytes(table[start : start + CODE_WORD_BYTES], "little")
                self._later[at + 1] |= {"words_valid": 1, "words_payload": {"last": last, "words": word}}
            await self.cycle(gains_valid=1, gains_payload={"last": last, **gain_of(group)})
        if not BEAT.payload_overlaps:
            await self.gap()

    async def finish(self) -> None:
        await self.drain()
        assert not self.reports


def gain_of(group: Group) -> dict[str, int]:
    """Numbers that say, modulo 65535, what ``group.cleared`` says, some of them with carries."""
    lanes, carries = 0, 0
    for lane, cleared in enumerate(group.cleared):
        gain = 0xFFFFFFFF - int(cleared)
        for place in range(lane, WIDTH * len(TYPES), WIDTH):
            carry = gain and random.getrandbits(1)
            gain -= carry
            carries |= carry << place
        lanes |= gain << 32 * lane
    return {"lanes": lanes, "carries": carries}


@TB.test()
@cocotb.parametrize(gaps=[0.0, 0.4])
async def blocks_back_to_back(tb, gaps):
    """Every length to 40 lanes and some more, blocks as close as they may be."""
    counts = [*range(1, 41), *(some_length(random) for _ in range(20))]
    for count in random.sample(counts, len(counts)):
        params = random.choice([DEFAULT, any_parameters(random)])
        await tb.send(groups_of(some_lanes(count, params, random), params), gaps)
    await tb.finish()


@TB.test()
async def one_burst_each(tb):
    """Check the shortest blocks at the shortest distance, with data of every size."""
    for _ in range(400):
        await tb.send(groups_of(some_lanes(random.randint(1, WIDTH), DEFAULT, random), DEFAULT))
    await tb.finish()


@TB.test()
async def longest(tb):
    """2304 lanes of each kind, and those with the greatest sums."""
    for kind in KINDS.values():
        await tb.send(groups_of(kind(MAX_LANES, random), DEFAULT))
    ones = np.full(MAX_LANES, 0xFFFFFFFF, np.uint32)
    groups = groups_of(ones, DEFAULT)
    await tb.send(groups)
    if PLANES:
        assert Report.of(groups).counts[RAW_CODE] == MAX_LANES // GROUP_LANES
    else:
        assert Report.of(groups).counts[Tag.RAW] == MAX_LANES
        # All bits but the exponent's are cleared, and more are set than in any other lane.
        await tb.send(groups_of(ones & 0x80FFFFFF, Parameters(127, 127, 127)))
    await tb.finish()


@TB.test(skip=not PLANES)
async def one_code_alone(tb):
    """Blocks whose groups have all the same code, so that each counter's bits move."""
    codes = set()
    for power in range(16):
        value = np.float32(0.75 * 2.0 ** (DEFAULT.e0 - 127 + power))
        groups = groups_of(np.full(MAX_LANES // 4, value, np.float32).view(np.uint32), DEFAULT)
        codes |= {code for code, count in enumerate(Report.of(groups).counts) if count == len(groups)}
        await tb.send(groups)
    await tb.finish()
    assert len(codes) > 13 or WIDTH > GROUP_LANES
