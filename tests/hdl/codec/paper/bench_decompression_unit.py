# SPDX-License-Identifier: BSD-2-Clause
"""cocotb bench of DecompressionUnit, and so of DecompressionBlock: every 8- and 16-bit vector."""

import random
from collections import deque
from collections.abc import Iterable

import cocotb
import numpy as np
from chosen_beat import BEAT
from cocotb.triggers import ClockCycles, FallingEdge

from inceptionn.hdl.codec.paper.decompression_unit import DecompressionUnit
from inceptionn.sim.golden.codec import decompress_lanes
from inceptionn.sim.testbench import TestBench
from inceptionn.wire import TAG_BYTES, Tag

WIDTH = BEAT.lanes
"""Lanes of a burst."""

Group = tuple[np.ndarray, np.ndarray, int]
"""Tags, vectors and base."""


class TB(TestBench):
    """A group per cycle in, each answer checked ``LATENCY`` cycles later."""

    def __init__(self, dut):
        super().__init__(dut)
        self.pending: deque[Group | None] = deque([None] * DecompressionUnit.LATENCY)
        self.checked = 0
        self.impossible = 0
        dut.aresetn.value = 1

    async def run(self, groups: Iterable[Group]) -> None:
        dut = self.dut
        await ClockCycles(dut.aclk, 2)
        await FallingEdge(dut.aclk)
        for group in [*groups, *[None] * DecompressionUnit.LATENCY]:
            due = self.pending.popleft()
            if due is not None:
                self.check(*due)
            self.pending.append(group)
            if group is not None:
                tags, vectors, base = group
                # Bits above a vector's size are noise.
                size = np.array(TAG_BYTES)[tags]
                noise = np.array([random.getrandbits(32) << 8 * int(n) & 0xFFFFFFFF for n in size], np.uint32)
                dut.tags.value = int(sum(int(tag) << 2 * lane for lane, tag in enumerate(tags)))
                dut.vectors.value = int.from_bytes((vectors | noise).astype("<u4").tobytes(), "little")
                dut.base.value = base
            await FallingEdge(dut.aclk)

    def check(self, tags: np.ndarray, vectors: np.ndarray, base: int) -> None:
        expected, impossible = decompress_lanes(tags, vectors, base)
        marked = np.array([int(self.dut.impossible.value) >> lane & 1 for lane in range(WIDTH)], bool)
        assert (marked == impossible).all(), f"base {base}: {vectors} of tags {tags} marked {marked}"
        burst = int(self.dut.burst.value).to_bytes(4 * WIDTH, "little")
        wrong = (np.frombuffer(burst, "<u4") != expected) & ~impossible
        assert not wrong.any(), f"base {base}: {vectors} of tags {tags} at lanes {np.flatnonzero(wrong)}"
        self.checked += WIDTH
        self.impossible += int(impossible.sum())


@cocotb.test()
async def every_16_bit_vector(dut):
    tb = TB(dut)
    vectors = np.random.default_rng(random.getrandbits(32)).permutation(1 << 16).astype(np.uint32)
    tags = np.full(WIDTH, Tag.BITS16, np.uint8)
    await tb.run((tags, group, random.getrandbits(8)) for group in vectors.reshape(-1, WIDTH))
    assert tb.checked == 1 << 16


@cocotb.test()
async def every_8_bit_vector(dut):
    """With every base, those at which exponents fall below 1 included."""
    tb = TB(dut)
    vectors = np.arange(256, dtype=np.uint32).reshape(-1, WIDTH)
    tags = np.full(WIDTH, Tag.BITS8, np.uint8)
    await tb.run((tags, np.roll(group, base), base) for base in range(256) for group in vectors)
    assert tb.checked == 1 << 16
    # Of each sign, 2**(7-p) magnitudes have their leading 1 at p = 1..7, impossible at a base of 0..p.
    assert tb.impossible == 2 * sum((p + 1) * 2 ** (7 - p) for p in range(1, 8))


@cocotb.test()
async def every_tag_word(dut):
    """Neighbouring lanes of different classes, random vectors; raw lanes keep their bits, NaNs and all."""
    tb = TB(dut)
    words = [random.getrandbits(2 * WIDTH) for _ in range(4000)]
    await tb.run(
        (
            tags := np.array([word >> 2 * lane & 3 for lane in range(WIDTH)], np.uint8),
            np.array([random.getrandbits(8 * TAG_BYTES[tag]) for tag in tags], np.uint32),
            random.getrandbits(8),
        )
        for word in words
    )
    assert tb.checked == 4000 * WIDTH
