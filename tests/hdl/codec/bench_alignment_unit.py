# SPDX-License-Identifier: BSD-2-Clause
"""cocotb bench of AlignmentUnit: every fill level meets every size, and every beat comes in its cycle."""

import random

import cocotb
from chosen_beat import BEAT
from compressor_blocks import BEAT_BYTES, Packing
from lockstep import Lockstep

from inceptionn.hdl.codec.alignment_unit import AlignmentUnit, block_vector

LATENCY = AlignmentUnit.latency_of(BEAT)


class TB(Lockstep):
    """Sends blocks as lists of vectors; every beat and ``done`` are due in a certain cycle."""

    def __init__(self, dut):
        quiet, layouts = {"beats_valid": 0, "done": 0}, {"vectors_payload": block_vector(BEAT)}
        super().__init__(dut, pulses=("vectors_valid",), quiet=quiet, layouts=layouts)
        self.packing = Packing()
        self.beats = 0

    async def gap(self) -> None:
        await self.cycle(vectors_payload={"data": 0})

    async def send(self, sizes: list[int], gaps: float = 0.0) -> None:
        """One block with vectors of these sizes, and with 8 lanes the idle cycle after it."""
        for index, size in enumerate(sizes):
            while random.random() < gaps:
                await self.gap()
            last = index == len(sizes) - 1
            vector = random.randbytes(size)
            for extra, beat, done in self.packing.push(vector, last, self.now):
                found = {"beats_payload": int.from_bytes(beat, "little")} if beat else {}
                self.due(LATENCY + extra, beats_valid=bool(beat), done=done, **found)
                self.beats += bool(beat)
            payload = {"last": last, "size": size, "data": int.from_bytes(vector, "little")}
            await self.cycle(vectors_valid=1, vectors_payload=payload)
        if not BEAT.payload_overlaps:
            await self.gap()


@TB.test()
async def every_level_and_size(tb):
    """All levels before all sizes, within a block and at its end."""
    cases = [(level, size) for level in range(BEAT_BYTES) for size in range(BEAT_BYTES + 1)]
    random.shuffle(cases)
    for level, size in cases:
        await tb.send([level, size])
    sizes, level = [], 0
    for want, size in cases:
        sizes += [(want - level) % BEAT_BYTES, size]
        level = (want + size) % BEAT_BYTES
    await tb.send(sizes)
    await tb.drain()


@TB.test()
@cocotb.parametrize(gaps=[0.0, 0.5])
async def blocks_back_to_back(tb, gaps):
    """Blocks of one vector and more, as close as they may be; empty ones and full ones as well."""
    full = BEAT_BYTES
    for _ in range(300):
        sizes = random.choice(
            [[0], [full], [0, full], [1], [full - 1], [full, 1], [0, 1, 2, 4], range(full + 1)]
        )
        await tb.send(random.choices(sizes, k=random.choice([1, 1, 2, 3, 20])), gaps)
    await tb.drain()
    assert tb.beats > 500


@TB.test()
async def one_beat_per_cycle(tb):
    """Full vectors at every offset: a beat in each cycle."""
    for level in range(BEAT_BYTES):
        await tb.send([level] + [BEAT_BYTES] * 20)
    await tb.drain()
