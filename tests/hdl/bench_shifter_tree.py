# SPDX-License-Identifier: BSD-2-Clause
"""cocotb bench of ShifterTree: every half of a tag word in both halves, every size of every vector."""

from __future__ import annotations

import random

import cocotb
import numpy as np
from compressor_blocks import aligned, word_of
from lockstep import Lockstep

from inceptionn.hdl.shifter_tree import ShifterTree
from inceptionn.wire import LANES, TAG_BYTES


class TB(Lockstep):
    """A group per cycle in; random vectors of the tags' sizes."""

    async def send(self, tags: list[int]) -> None:
        vectors = np.array([random.getrandbits(8 * TAG_BYTES[tag]) for tag in tags], np.uint32)
        data = aligned(np.array(tags), vectors)
        self.due(ShifterTree.LATENCY, size=len(data), aligned=int.from_bytes(data, "little"))
        await self.cycle(tags=word_of(tags, 2), vectors=word_of(vectors, 32))


def tags_of(word: int, lanes: int) -> list[int]:
    return [word >> 2 * lane & 3 for lane in range(lanes)]


@cocotb.test()
async def every_half(dut):
    """All 256 tags of four lanes meet a random half above, and below, eight times; a new group per cycle."""
    tb = TB(dut)
    await tb.reset()
    for _ in range(8):
        lower, upper = random.sample(range(256), 256), random.sample(range(256), 256)
        for low, high in zip(lower, upper, strict=True):
            await tb.send(tags_of(low, 4) + tags_of(high, 4))
    await tb.drain()
    assert tb.checked == 2 * 8 * 256


@cocotb.test()
async def every_total(dut):
    """Every size from 0 to 32 bytes, each with one lane of another class than all others, too."""
    tb = TB(dut)
    await tb.reset()
    for tag in range(4):
        await tb.send([tag] * LANES)
        for lane in range(LANES):
            for other in range(4):
                await tb.send([other if index == lane else tag for index in range(LANES)])
    for raw in range(LANES + 1):
        for rest in range(3):
            tags = [3] * raw + [rest] * (LANES - raw)
            await tb.send(tags)
            await tb.send(tags[::-1])
    await tb.drain()
