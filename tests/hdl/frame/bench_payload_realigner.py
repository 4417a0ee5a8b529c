# SPDX-License-Identifier: BSD-2-Clause
"""cocotb bench of PayloadRealigner: every place, skip, and end of a frame, against slices of its bytes.

Parameter ``lanes``; with 16, a run may begin in its frame's first beat, after 42 bytes of headers or more.
"""

import itertools
import random
from collections import defaultdict
from dataclasses import dataclass

import cocotb
from chosen_beat import BEAT
from lockstep import Lockstep

from inceptionn.hdl.frame.frame_input import frame_beat
from inceptionn.hdl.frame.payload_realigner import PayloadRealigner, payload_burst, payload_run
from inceptionn.wire import SHIM_BYTES

LATENCY = PayloadRealigner.LATENCY
LANES = BEAT.lanes
BURST_BYTES = 4 * LANES
RUN = payload_run(BEAT)
FIRST = BEAT.parsed_beat
"""The first beat in which a run may begin."""
SKIPS = range(1 << RUN["skip"].width)
PLACES = [
    (lane, skip)
    for lane in range(LANES)
    for skip in SKIPS
    if BURST_BYTES * (FIRST + skip) + 4 * lane + 2 >= 34
]
"""With 8 lanes all, with 16 those after the headers."""
MOST_BYTES = 65_504
"""Of a run: 2047 bursts, or 1024."""


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
        return FIRST + self.skip

    @property
    def start(self) -> int:
        """Its first byte in the frame."""
        return BURST_BYTES * self.begin + 4 * self.lane + 2

    @property
    def bits(self) -> int:
        """The payload of ``runs``."""
        fields = {"skip": self.skip, "lane": self.lane, "bursts": -(-self.length // BURST_BYTES)}
        return RUN.const(fields | {"ending": self.length % BURST_BYTES}).as_bits()

    @property
    def bursts(self) -> int:
        """Those of the run, if the frame is long enough; else those that the frame still gives."""
        there = max(1, self.beats - self.begin)
        return min(-(-self.length // BURST_BYTES), there)

    @property
    def whole(self) -> bool:
        return self.start + self.length <= BURST_BYTES * self.beats


class TB(Lockstep):
    """Plans frames cycle by cycle, with each burst where it is due and the bytes that the frame fixes."""

    def __init__(self, dut):
        layouts = {"beats_payload": frame_beat(BURST_BYTES), "bursts_payload": payload_burst(BEAT)}
        pulses = ("beats_valid", "runs_valid")
        super().__init__(dut, pulses=pulses, quiet={"bursts_valid": 0}, layouts=layouts)
        self._plan: defaultdict[int, dict[str, int]] = defaultdict(dict)
        self._bytes: defaultdict[int, list[tuple[str, int, bytes]]] = defaultdict(list)
        self._end = 1
        """First cycle without a plan; a run is loaded in the cycle before."""

    def send(self, run: Run, gap: float) -> None:
        """One frame; ``gap`` is the probability of an idle cycle in front of a beat."""
        frame = random.randbytes(BURST_BYTES * run.beats)
        emitted = 0
        for index in range(run.beats):
            while random.random() < gap:
                self._end += 1
            data = frame[BURST_BYTES * index : BURST_BYTES * (index + 1)]
            if run.length and index == FIRST:
                self._plan[self._end - 1] |= {"runs_valid": 1, "runs_payload": run.bits}
            if run.length and index == run.begin:
                self._front(run, frame)
            if run.length and index > run.begin and emitted < run.bursts:
                self._burst(run, frame, emitted)
                emitted += 1
            beat = {"last": int(index == run.beats - 1), "data": int.from_bytes(data, "little")}
            self._plan[self._end] |= {"beats_valid": 1, "beats_payload": beat}
            self._end += 1
        if run.length and emitted < run.bursts:
            self._burst(run, frame, emitted)  # one cycle after the last beat
            emitted += 1
        assert not run.length or emitted == run.bursts

    def _front(self, run: Run, frame: bytes) -> None:
        """Expect the bytes before the run with the beat in which the run begins."""
        # With 8 lanes without the bytes of the frame's first beat.
        first = 0 if BEAT.payload_overlaps else BURST_BYTES
        before = frame[max(first, run.start - SHIM_BYTES) : run.start]
        self._bytes[self._end + LATENCY].append(("front", SHIM_BYTES - len(before), before))

    def _burst(self, run: Run, frame: bytes, index: int) -> None:
        last = index == run.bursts - 1
        at = run.start + BURST_BYTES * index
        data = frame[at : min(at + BURST_BYTES, run.start + run.length)]
        fields = {"first": int(index == 0), "last": int(last)}
        if run.whole:
            fields["count"] = len(data)
        self.due(self._end + LATENCY - self.now, bursts_valid=1, bursts_payload=fields)
        self._bytes[self._end + LATENCY].append(("burst", 0, data))

    async def play(self) -> None:
        """All that is planned, with noise where nothing is."""
        while self.now < self._end + LATENCY + 10:
            for name, at, data in self._bytes.pop(self.now, []):
                burst = self.fields("bursts_payload").data
                shown = burst if name == "burst" else self.read(name)
                width = BURST_BYTES if name == "burst" else SHIM_BYTES
                found = shown.to_bytes(width, "little")[at : at + len(data)]
                assert found == data, (
                    f"cycle {self.now}: {name}, bytes {at}..: {found.hex()}, not {data.hex()}"
                )
                self.checked += 1
            noise = {"runs_payload": random.getrandbits(RUN.size), "beats_payload": {}}
            await self.cycle(**noise | self._plan.pop(self.now, {}))
        assert not self._bytes
        assert not self._due
        self._end = self.now + 1


def ends(skip: int, length: int) -> list[int]:
    """Beats of a frame: from the fewest, far too short for the run, to three more than it needs."""
    needed = FIRST + 1 + skip + -(-(length + BURST_BYTES - 2) // BURST_BYTES)
    return list(range(FIRST + 1, needed + 2))


@TB.test()
@cocotb.parametrize(gap=[0.0, 0.35])
async def every_place(tb, gap):
    """Every lane and skip, lengths around whole bursts and random ones, every end of the frame."""
    runs = []
    for lane, skip in PLACES:
        for length in (1, 2, 31, 32, 33, 63, 64, 65, *(random.randint(1, 4 * BURST_BYTES) for _ in range(3))):
            runs += [Run(beats, skip, lane, length) for beats in ends(skip, length)]
    random.shuffle(runs)
    for run in runs if not gap else runs[::3]:
        tb.send(run, gap)
        # Frames of which nothing is wanted, often of a single beat, follow directly.
        while random.random() < 0.3:
            tb.send(Run(random.choice([1, 1, 1, 2, 5])), gap)
    await tb.play()


@TB.test()
async def one_beat_frames_behind_a_cut_run(tb):
    """Check that the rest of a run leaves while the next frame, of one beat, comes and ends."""
    for (lane, skip), beats in itertools.product(PLACES, range(FIRST + 1, 7)):
        tb.send(Run(beats, skip, lane, 150), 0.0)
        for _ in range(random.randint(1, 3)):
            tb.send(Run(1), 0.0)
    await tb.play()


@TB.test()
async def long_runs(tb):
    """One burst per cycle, back to back, up to the longest run."""
    for length in (1448, 1460, 9216, 8, 9215):
        lane, skip = random.choice(PLACES)
        tb.send(
            Run(FIRST + 1 + skip + -(-(length + BURST_BYTES - 2) // BURST_BYTES), skip, lane, length), 0.0
        )
    lane, skip = PLACES[-1]
    tb.send(Run(MOST_BYTES // BURST_BYTES + skip + 4, skip, lane, MOST_BYTES), 0.0)
    tb.send(Run(300, skip, lane, MOST_BYTES), 0.0)
    await tb.play()
