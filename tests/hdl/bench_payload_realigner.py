# SPDX-License-Identifier: BSD-2-Clause
"""cocotb bench of PayloadRealigner: every place, skip, and end of a frame, against slices of its bytes."""

from __future__ import annotations

import itertools
import random
from collections import defaultdict
from dataclasses import dataclass

import cocotb
from lockstep import Lockstep

from inceptionn.hdl.payload_realigner import PayloadRealigner, PayloadRun
from inceptionn.wire import BURST_BYTES

LATENCY = PayloadRealigner.LATENCY
LANES = range(8)
SKIPS = range(4)
MOST_BYTES = 65_504
"""Of a run: 2047 bursts."""


@dataclass(frozen=True)
class Run:
    """A run of ``length`` bytes in a frame of ``beats`` beats; nothing is loaded for a ``length`` of 0."""

    beats: int
    skip: int = 0
    lane: int = 0
    length: int = 0

    @property
    def begin(self) -> int:
        """Index of the beat in which the run begins."""
        return 1 + self.skip

    @property
    def start(self) -> int:
        """Its first byte in the frame."""
        return BURST_BYTES * self.begin + 4 * self.lane + 2

    @property
    def bits(self) -> int:
        """The input ``run``."""
        fields = {"skip": self.skip, "lane": self.lane, "bursts": -(-self.length // BURST_BYTES)}
        return PayloadRun.const(fields | {"ending": self.length % BURST_BYTES}).as_bits()

    @property
    def bursts(self) -> int:
        """Those of the run, if the frame is long enough; else those that the frame still gives."""
        there = max(1, self.beats - self.begin)
        return min(-(-self.length // BURST_BYTES), there)

    @property
    def whole(self) -> bool:
        return self.start + self.length <= BURST_BYTES * self.beats


class TB(Lockstep):
    """Sends frames, and knows when each burst is due and which of its bytes the frame fixes."""

    def __init__(self, dut):
        super().__init__(dut, pulses=("valid", "load"), quiet={"out_valid": 0})
        self._bytes: defaultdict[int, list[tuple[int, bytes]]] = defaultdict(list)

    async def step(self, **inputs: int) -> None:
        for at, data in self._bytes.pop(self.now, []):
            found = self.read("out_burst").to_bytes(BURST_BYTES, "little")[at : at + len(data)]
            assert found == data, f"cycle {self.now}: bytes {at}.. are {found.hex()}, not {data.hex()}"
            self.checked += 1
        noise = {"run": random.getrandbits(len(self.dut.run))}
        noise |= {"last": random.getrandbits(1), "beat": random.getrandbits(8 * BURST_BYTES)}
        await self.cycle(**noise | inputs)

    @staticmethod
    def _idle(gap: float) -> int:
        cycles = 0
        while random.random() < gap:
            cycles += 1
        return cycles

    async def send(self, run: Run, gap: float) -> None:
        """One frame; ``gap`` is the probability of an idle cycle in front of a beat."""
        frame = random.randbytes(BURST_BYTES * run.beats)
        emitted = 0
        load = {"load": 1, "run": run.bits} if run.length else {}
        idle = [self._idle(gap) for _ in range(run.beats)]
        for index in range(run.beats):
            for cycle in range(idle[index]):
                await self.step(**load if index == 1 and cycle == idle[1] - 1 else {})
            data = frame[BURST_BYTES * index : BURST_BYTES * (index + 1)]
            if run.length and index == run.begin:
                before = frame[max(BURST_BYTES, run.start - BURST_BYTES) : run.start]
                self._bytes[self.now + LATENCY].append((BURST_BYTES - len(before), before))
            if run.length and index > run.begin and emitted < run.bursts:
                self._burst(run, frame, emitted)
                emitted += 1
            inputs = {"valid": 1, "last": int(index == run.beats - 1), "beat": int.from_bytes(data, "little")}
            if index == 0 and run.beats > 1 and not idle[1]:
                inputs |= load
            await self.step(**inputs)
        if run.length and emitted < run.bursts:
            self._burst(run, frame, emitted)  # one cycle behind the last beat
            emitted += 1
        assert not run.length or emitted == run.bursts

    def _burst(self, run: Run, frame: bytes, index: int) -> None:
        last = index == run.bursts - 1
        at = run.start + BURST_BYTES * index
        data = frame[at : min(at + BURST_BYTES, run.start + run.length)]
        self.due(LATENCY, out_valid=1, out_first=int(index == 0), out_last=int(last))
        if run.whole:
            self.due(LATENCY, out_count=len(data))
        self._bytes[self.now + LATENCY].append((0, data))

    async def drain(self) -> None:
        for _ in range(LATENCY + 10):
            await self.step()
        assert not self._bytes
        assert not self._due


async def started(dut) -> TB:
    tb = TB(dut)
    await tb.reset()
    return tb


def ends(skip: int, length: int) -> list[int]:
    """Beats of a frame: from two, far too short for the run, to three more than it needs."""
    needed = 2 + skip + -(-(length + 30) // BURST_BYTES)
    return list(range(2, needed + 2))


@cocotb.test()
@cocotb.parametrize(gap=[0.0, 0.35])
async def every_place(dut, gap):
    """8 lanes, 4 skips, lengths around whole bursts and random ones, every end of the frame."""
    tb = await started(dut)
    runs = []
    for lane, skip in itertools.product(LANES, SKIPS):
        for length in (1, 2, 31, 32, 33, 64, *(random.randint(1, 130) for _ in range(4))):
            runs += [Run(beats, skip, lane, length) for beats in ends(skip, length)]
    random.shuffle(runs)
    for run in runs if not gap else runs[::3]:
        await tb.send(run, gap)
        # Frames of which nothing is wanted, often of a single beat, follow directly.
        while random.random() < 0.3:
            await tb.send(Run(random.choice([1, 1, 1, 2, 5])), gap)
    await tb.drain()


@cocotb.test()
async def one_beat_frames_behind_a_cut_run(dut):
    """The rest of a run leaves while the next frame, of one beat, comes and ends."""
    tb = await started(dut)
    for lane, skip, beats in itertools.product(LANES, SKIPS, range(2, 7)):
        await tb.send(Run(beats, skip, lane, 150), 0.0)
        for _ in range(random.randint(1, 3)):
            await tb.send(Run(1), 0.0)
    await tb.drain()


@cocotb.test()
async def long_runs(dut):
    """One burst per cycle, back to back, up to the longest run."""
    tb = await started(dut)
    for length in (1448, 1460, 9216, 8, 9215):
        skip, lane = random.choice(SKIPS), random.choice(LANES)
        await tb.send(Run(2 + skip + -(-(length + 30) // BURST_BYTES), skip, lane, length), 0.0)
    start = tb.now
    await tb.send(Run(2050, 0, 5, MOST_BYTES), 0.0)
    await tb.send(Run(300, 0, 5, MOST_BYTES), 0.0)
    assert tb.now - start == 2350
    await tb.drain()
