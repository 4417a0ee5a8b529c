# SPDX-License-Identifier: BSD-2-Clause
"""cocotb bench of BurstBuffer: every position, every mix of vector sizes."""

from __future__ import annotations

import random
from collections import deque

import cocotb
from cocotb.triggers import FallingEdge

from inceptionn.hdl.codec.paper.burst_buffer import BurstBuffer
from inceptionn.hdl.codec.plane_decoder import BEAT_BITS, position_bits
from inceptionn.hdl.codec.ring_window import group_request
from inceptionn.hdl.parts.beat import Beat
from inceptionn.sim.runner import bench_parameters
from inceptionn.sim.testbench import TestBench
from inceptionn.wire import LANE_BYTES, TAG_BYTES

WIDTH = bench_parameters().get("lanes", 8)
"""Lanes of a beat."""
BEAT_BYTES = WIDTH * LANE_BYTES
POSITIONS = 1 << position_bits(WIDTH)
REQUEST = group_request(WIDTH, "tags", 2 * WIDTH)
LATENCY = BurstBuffer.latency_of(Beat(WIDTH))


class TB(TestBench):
    """Appends beats at random, and requests groups at random places among those that are kept."""

    def __init__(self, dut):
        super().__init__(dut)
        self.kept: deque[bytes] = deque([bytes(BEAT_BYTES)], maxlen=BurstBuffer.DEPTH - 2)
        """The newest beats; the model of the buffer, less the two slots that it may be overwriting."""
        self.newest = (1 << BEAT_BITS) - 1
        self.pending: deque[tuple[int, bytes] | None] = deque([None] * LATENCY)
        self.request: tuple[int, bytes] | None = None
        self.checked = 0

    async def reset(self) -> None:
        self.dut.beats_valid.value = self.dut.requests_valid.value = 0
        await super().reset()
        await FallingEdge(self.dut.aclk)

    def ask(self, beat: int, offset: int, tags: int) -> None:
        """Requests the group after byte ``offset`` of the kept beat ``beat`` (0 is the oldest)."""
        number = self.newest - (len(self.kept) - 1) + beat
        position = (number * BEAT_BYTES + offset) % POSITIONS
        window = b"".join(list(self.kept)[beat : beat + 2])
        self.dut.requests_payload.value = REQUEST.const({"position": position, "tags": tags}).as_bits()
        self.dut.requests_valid.value = 1
        self._loading = (tags, window[offset + 1 : offset + 1 + BEAT_BYTES])

    async def step(self, append: bool) -> None:
        """One cycle: whatever was asked for is loaded, ``append`` adds a random beat, outputs are checked."""
        dut = self.dut
        data = random.randbytes(BEAT_BYTES)
        dut.beats_payload.value = int.from_bytes(data, "little")
        dut.beats_valid.value = append
        assert int(dut.newest.value) == self.newest % (1 << BEAT_BITS)
        assert int(dut.following.value) == (self.newest + 1) % (1 << BEAT_BITS)
        due = self.pending.popleft()
        if due is not None:
            self.check(*due)
        self.pending.append(self.request)
        await FallingEdge(dut.aclk)
        if append:
            self.kept.append(data)
            self.newest += 1
        self.request, self._loading = self._loading, None
        dut.requests_valid.value = 0

    _loading: tuple[int, bytes] | None = None

    def check(self, tags: int, data: bytes) -> None:
        vectors = int(self.dut.vectors.value).to_bytes(BEAT_BYTES, "little")
        assert int(self.dut.vector_tags.value) == tags
        at = 0
        for lane in range(WIDTH):
            size = TAG_BYTES[tags >> 2 * lane & 3]
            found = vectors[4 * lane : 4 * lane + size]
            assert found == data[at : at + size], f"lane {lane} of tags {tags:#06x}: {found.hex()}"
            at += size
        self.checked += 1


@cocotb.test()
async def every_position(dut):
    """Even and odd first beats, all of their bytes, with all lanes raw, then with random tags."""
    tb = TB(dut)
    await tb.reset()
    for _ in range(8):
        await tb.step(append=True)
    for round_ in range(20):
        for beat in range(2, 5):
            for offset in range(BEAT_BYTES):
                tb.ask(beat, offset, random.getrandbits(2 * WIDTH) if round_ else 4**WIDTH - 1)
                await tb.step(append=False)
    for _ in range(LATENCY + 1):
        await tb.step(append=False)
    assert tb.checked == 20 * 3 * BEAT_BYTES


@cocotb.test()
async def while_it_fills(dut):
    """Requests of every age while beats come in, over several turns of all counters."""
    tb = TB(dut)
    await tb.reset()
    for _ in range(6000):
        if len(tb.kept) > 2 and random.random() < 0.8:
            beat = random.choice([0, len(tb.kept) - 2, random.randrange(len(tb.kept) - 1)])
            oldest_goes = len(tb.kept) == tb.kept.maxlen and beat == 0
            tb.ask(beat + oldest_goes, random.randrange(BEAT_BYTES), random.getrandbits(2 * WIDTH))
        await tb.step(append=random.random() < 0.6)
    assert tb.newest > 2 << BEAT_BITS
    assert tb.checked > 4000
