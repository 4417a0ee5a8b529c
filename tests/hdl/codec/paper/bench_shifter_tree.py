# SPDX-License-Identifier: BSD-2-Clause
"""cocotb bench of ShifterTree: every four tags beside any others, every size of every vector."""

import random

import numpy as np
from chosen_beat import BEAT
from compressor_blocks import WIDTH, aligned, word_of
from lockstep import Lockstep

from inceptionn.hdl.codec.paper.shifter_tree import ShifterTree
from inceptionn.wire import TAG_BYTES


class TB(Lockstep):
    """A group per cycle in; random vectors of the tags' sizes."""

    async def send(self, tags: list[int]) -> None:
        vectors = np.array([random.getrandbits(8 * TAG_BYTES[tag]) for tag in tags], np.uint32)
        data = aligned(np.array(tags), vectors)
        self.due(ShifterTree.latency_of(BEAT), size=len(data), aligned=int.from_bytes(data, "little"))
        await self.cycle(tags=word_of(tags, 2), vectors=word_of(vectors, 32))


def tags_of(word: int, lanes: int) -> list[int]:
    return [word >> 2 * lane & 3 for lane in range(lanes)]


@TB.test()
async def every_quarter(tb):
    """All 256 tags of four lanes in every place, beside random others, eight times; new ones per cycle."""
    for _ in range(8):
        for words in zip(*(random.sample(range(256), 256) for _ in range(WIDTH // 4)), strict=True):
            await tb.send([tag for word in words for tag in tags_of(word, 4)])
    await tb.drain()
    assert tb.checked == 2 * 8 * 256


@TB.test()
async def every_total(tb):
    """Every size from 0 to that of a burst, each with one lane of another class than all others, too."""
    for tag in range(4):
        await tb.send([tag] * WIDTH)
        for lane in range(WIDTH):
            for other in range(4):
                await tb.send([other if index == lane else tag for index in range(WIDTH)])
    for raw in range(WIDTH + 1):
        for rest in range(3):
            tags = [3] * raw + [rest] * (WIDTH - raw)
            await tb.send(tags)
            await tb.send(tags[::-1])
    await tb.drain()
