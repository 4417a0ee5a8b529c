# SPDX-License-Identifier: BSD-2-Clause
"""cocotb bench of Decompressor: blocks pushed as far as ``room`` allows, and one beat more.

What becomes of every kind of block is the stand-alone decompressor's bench, which has one inside.
"""

import random
from collections import deque
from itertools import product

import cocotb
import numpy as np
from chosen_width import WIDTH
from cocotb.triggers import Timer
from decompressor_blocks import BEAT_BYTES, CODEC, LANES, Block, good, mixture
from lockstep import Lockstep

from inceptionn.hdl.codec.block_splitter import block_beat
from inceptionn.hdl.codec.codecs import codec_of
from inceptionn.hdl.codec.decompressor import decoded_burst
from inceptionn.sim.golden import codec
from inceptionn.wire import LANE_BYTES, Tag, parameters

DEFAULT = parameters(10, "bounded")
LATENCY = codec_of(CODEC).decompressor.latency_of(WIDTH)


def beats_of(block: Block) -> list[dict[str, int]]:
    """Return the beats of a block as it is pushed, with noise where a field means nothing."""
    beats = []
    for at in range(0, len(block.data), BEAT_BYTES):
        data = block.data[at : at + BEAT_BYTES]
        noisy = data + random.randbytes(BEAT_BYTES - len(data))
        beat = {"data": int.from_bytes(noisy, "little"), "keep": (1 << len(data)) - 1}
        beat["last"] = int(at + BEAT_BYTES >= len(block.data))
        beats.append(beat | ({} if at else {"lanes": block.count, "base": block.base}))
    return beats


class TB(Lockstep):
    """Pushes blocks and takes bursts, each as often as it likes."""

    def __init__(self, dut):
        layouts = {"beats_payload": block_beat(WIDTH), "bursts_payload": decoded_burst(WIDTH)}
        super().__init__(dut, pulses=("beats_valid", "bursts_ready"), layouts=layouts)

    async def run(self, blocks: list[Block], *, push: float = 1.0, take: float = 1.0) -> list[int]:
        """Check every block's bursts; return the cycles in which one was there.

        ``push``, ``take``: probability in each cycle that a beat comes, that a burst is taken.
        """
        to_push = deque(beat for block in blocks for beat in beats_of(block))
        wanted = deque(blocks)
        came, seen = bytearray(), []
        limit = self.now + 1000 + 40 * (len(to_push) + sum(block.bursts for block in blocks))
        late = 1
        while wanted:
            assert self.now < limit, f"hang: {len(wanted)} blocks to come"
            late = 1 if self.read("room") else late
            inputs: dict[str, int | dict[str, int]] = {"beats_payload": {}}
            if to_push and (self.read("room") or late) and random.random() < push:
                late -= not self.read("room")
                inputs = {"beats_valid": 1, "beats_payload": to_push.popleft()}
            taken = random.random() < take
            await Timer(1, "ns")
            if self.read("bursts_valid"):
                seen.append(self.now)
                if taken:
                    self._collect(came, wanted)
            await self.cycle(**inputs, bursts_ready=int(taken))
        assert not to_push
        for _ in range(60):
            assert not self.read("bursts_valid"), "a burst too many"
            await self.cycle()
        return seen

    def _collect(self, came: bytearray, wanted: deque[Block]) -> None:
        burst = self.fields("bursts_payload")
        present = burst.present.bit_count()
        assert burst.present == (1 << present) - 1
        came += burst.lanes.to_bytes(BEAT_BYTES, "little")[: LANE_BYTES * present]
        assert burst.last or not burst.fault
        if burst.last:
            wanted.popleft().check(bytes(came), bool(burst.fault))
            came.clear()


@TB.test()
@cocotb.parametrize(push=[1.0, 0.5], take=[1.0, 0.5, 0.1])
async def any_pace(tb, push, take):
    """Good and malformed blocks, while either side is the slower one."""
    await tb.run(mixture(25, None, 0.3, random), push=push, take=take)


@TB.test(skip=CODEC != "paper")
async def one_lane_at_a_time(tb):
    """Check a vector in one lane alone, with each place of its leading 1, at each small base."""
    blocks = []
    for lane in range(LANES):
        for tag, places, bases in ((Tag.BITS8, 7, range(10)), (Tag.BITS16, 15, [127])):
            for place, base in product(range(places), bases):
                tags, vectors = np.zeros(LANES, np.uint8), np.zeros(LANES, np.uint32)
                tags[lane] = tag
                vectors[lane] = random.getrandbits(1) << places | 1 << place | random.getrandbits(place)
                blocks.append(Block(codec.pack_block(tags, vectors), LANES, base, f"lane {lane}"))
    await tb.run(blocks)


@TB.test()
async def one_group_at_a_time(tb):
    """Check blocks of one group, each long after the one before, in all places of the memory for marks."""
    await tb.run([good(random.randint(1, LANES), DEFAULT, "large", random) for _ in range(40)], push=0.1)


@TB.test()
async def latency(tb):
    """Check the latency from the first beat to the first burst of an idle decompressor."""
    start = tb.now
    seen = await tb.run([good(LANES, DEFAULT, "large", random)])
    assert seen[0] - start <= LATENCY
