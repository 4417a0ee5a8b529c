# SPDX-License-Identifier: BSD-2-Clause
"""cocotb bench of both codecs' windows, BurstBuffer and PlaneBuffer: every position, every mix of sizes."""

import random
from collections import deque

from chosen_beat import BEAT
from cocotb.triggers import FallingEdge

from inceptionn.hdl.codec.paper.burst_buffer import BurstBuffer
from inceptionn.hdl.codec.planes.plane_buffer import PlaneBuffer
from inceptionn.hdl.codec.planes.plane_unit import CODE_BITS
from inceptionn.hdl.codec.ring_window import group_request
from inceptionn.hdl.codec.table_decoder import BEAT_BITS, position_bits
from inceptionn.sim.runner import bench_parameters
from inceptionn.sim.testbench import TestBench
from inceptionn.wire import BF16_LANES, BURST_BYTES, FP32_LANES, GROUP_LANES, RAW_CODE, TAG_BYTES, LaneType

WIDTH = BEAT.lanes
"""Lanes of a beat."""
BEAT_BYTES = BEAT.bytes
POSITIONS = 1 << position_bits(BEAT)
PLANES = bench_parameters().get("codec") == "planes"
BUFFER = PlaneBuffer if PLANES else BurstBuffer
LATENCY = BUFFER.latency_of(BEAT)
CODES_BITS = CODE_BITS * WIDTH // GROUP_LANES
MARKS, MARK_BITS = ("codes", CODES_BITS + BEAT.bf16) if PLANES else ("tags", 2 * WIDTH)
"""What tells the sizes: a code per group and the type of the lanes, or a tag per lane."""
REQUEST = group_request(BEAT, MARKS, MARK_BITS)


class TB(TestBench):
    """Appends beats at random, and requests groups at random places among those that are kept."""

    def __init__(self, dut):
        super().__init__(dut)
        self.kept: deque[bytes] = deque([bytes(BEAT_BYTES)], maxlen=BUFFER.DEPTH - 2)
        """The newest beats; the model of the buffer, less the two slots that it may be overwriting."""
        self.newest = (1 << BEAT_BITS) - 1
        self.pending: deque[tuple[int, bytes] | None] = deque([None] * LATENCY)
        self.request: tuple[int, bytes] | None = None
        self.checked = 0

    async def reset(self) -> None:
        self.dut.beats_valid.value = self.dut.requests_valid.value = 0
        await super().reset()
        await FallingEdge(self.dut.aclk)

    def ask(self, beat: int, offset: int, marks: int) -> None:
        """Request the group after byte ``offset`` of the kept beat ``beat`` (0 is the oldest)."""
        number = self.newest - (len(self.kept) - 1) + beat
        position = (number * BEAT_BYTES + offset) % POSITIONS
        window = b"".join(list(self.kept)[beat : beat + 2])
        self.dut.requests_payload.value = REQUEST.const({"position": position, MARKS: marks}).as_bits()
        self.dut.requests_valid.value = 1
        self._loading = (marks, window[offset + 1 : offset + 1 + BEAT_BYTES])

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

    def check(self, marks: int, data: bytes) -> None:
        beside, name = (self.dut.data_codes, "data") if PLANES else (self.dut.vector_tags, "vectors")
        assert int(beside.value) == (marks % (1 << CODES_BITS) if PLANES else marks)
        found = int(getattr(self.dut, name).value).to_bytes(BEAT_BYTES, "little")
        sizes, at = sizes_of(marks), 0
        for part, size in enumerate(sizes):
            expected = data[at : at + size]
            if PLANES and size < BURST_BYTES:  # the planes that the group lacks are zero
                expected = expected.ljust(kind_of(marks).code_bytes[RAW_CODE - 1], b"\0")
            start = part * BEAT_BYTES // len(sizes)
            came = found[start : start + len(expected)]
            assert came == expected, f"part {part} of {MARKS} {marks:#06x}: {came.hex()}"
            at += size
        self.checked += 1


def kind_of(marks: int) -> LaneType:
    """Return the type of the lanes of a group."""
    return BF16_LANES if PLANES and marks >> CODES_BITS else FP32_LANES


def sizes_of(marks: int) -> list[int]:
    """Bytes of each group, or of each lane."""
    if PLANES:
        return [kind_of(marks).code_bytes[marks >> at & RAW_CODE] for at in range(0, CODES_BITS, CODE_BITS)]
    return [TAG_BYTES[marks >> at & 3] for at in range(0, MARK_BITS, 2)]


@TB.test()
async def every_position(tb):
    """Even and odd first beats, all of their bytes, all raw, then of random sizes."""
    for _ in range(8):
        await tb.step(append=True)
    for round_ in range(20):
        for beat in range(2, 5):
            for offset in range(BEAT_BYTES):
                tb.ask(beat, offset, random.getrandbits(MARK_BITS) if round_ else (1 << MARK_BITS) - 1)
                await tb.step(append=False)
    for _ in range(LATENCY + 1):
        await tb.step(append=False)
    assert tb.checked == 20 * 3 * BEAT_BYTES


@TB.test()
async def while_it_fills(tb):
    """Check requests of every age while beats come in, over several turns of all counters."""
    for _ in range(6000):
        if len(tb.kept) > 2 and random.random() < 0.8:
            beat = random.choice([0, len(tb.kept) - 2, random.randrange(len(tb.kept) - 1)])
            oldest_goes = len(tb.kept) == tb.kept.maxlen and beat == 0
            tb.ask(beat + oldest_goes, random.randrange(BEAT_BYTES), random.getrandbits(MARK_BITS))
        await tb.step(append=random.random() < 0.6)
    assert tb.newest > 2 << BEAT_BITS
    assert tb.checked > 4000
