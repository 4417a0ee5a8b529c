# SPDX-License-Identifier: BSD-2-Clause
"""cocotb bench of FrameInput: a beat's place, the register in front, and the pace.

Parameters ``pace``, ``data_bytes`` (32 unless given).
"""

import random
from dataclasses import dataclass

import cocotb
from cocotb.triggers import FallingEdge, ReadOnly, Timer
from lockstep import Lockstep

from inceptionn.hdl.frame.frame_input import frame_beat
from inceptionn.sim.runner import bench_parameters
from inceptionn.wire import BURST_BYTES

PACE = bench_parameters()["pace"]
BEAT_BYTES = bench_parameters().get("data_bytes", BURST_BYTES)
FULL = (1 << BEAT_BYTES) - 1


@dataclass(frozen=True)
class Beat:
    """A beat as it is offered."""

    index: int
    last: bool
    count: int
    user: int
    data: int
    bad: bool
    """Of the whole frame; means something with ``last``."""
    keep: int
    """``tkeep`` as it is offered."""


def frame(beats: int, *, bad: bool = False, partial: int | None = None, empty: bool = False) -> list[Beat]:
    """Return a frame of ``beats`` beats; beat ``partial`` is not full though more follow.

    ``empty``: the last beat holds no byte, which makes the frame bad; the beat counts as a full one.
    """
    made = []
    for index in range(beats):
        last = index == beats - 1
        count = random.randint(1, BEAT_BYTES) if last else BEAT_BYTES
        if index == partial:
            count = random.randint(1, BEAT_BYTES - 1)
        user = int(bad) if last else random.getrandbits(1)
        ragged = partial is not None and partial < beats - 1
        keep = (1 << count) - 1
        if empty and last:
            count, keep = BEAT_BYTES, 0
        marked = bad or ragged or empty
        made.append(Beat(min(index, 2), last, count, user, random.getrandbits(8 * BEAT_BYTES), marked, keep))
    return made


class TB(Lockstep):
    """Offers beats as AXI4-Stream wants it, and holds every output to its cycle."""

    def __init__(self, dut):
        super().__init__(dut, quiet={"beats_valid": 0}, layouts={"beats_payload": frame_beat(BEAT_BYTES)})
        self.starts: list[int] = []

    async def reset(self) -> None:
        self.dut.s_axis_tvalid.value = 0
        self.dut.room.value = 1
        await super().reset()

    async def run(self, frames: list[list[Beat]], *, offer: float = 1.0, room: float = 1.0) -> None:
        """``offer``, ``room``: probability in each cycle that a beat is there, and that there is room."""
        beats = [beat for made in frames for beat in made]
        self.starts.clear()
        offered = False
        room_before = [True, True]
        low = 0  # cycles since `room` fell
        while beats:
            ready = bool(self.read("s_axis_tready"))
            assert not ready or room_before[0], "tready though there was no room"
            if PACE == 1:
                assert ready == room_before[0], "tready waits for more than room"
            assert low < 3 or not self.read("beats_valid"), f"a beat {low} cycles after room fell"
            offered = offered or random.random() < offer
            now_room = random.random() < room
            inputs = {"s_axis_tvalid": int(offered), "room": int(now_room)}
            if offered:
                beat = beats[0]
                inputs |= {
                    "s_axis_tdata": beat.data,
                    "s_axis_tkeep": beat.keep,
                    "s_axis_tlast": int(beat.last),
                    "s_axis_tuser": beat.user,
                }
            else:
                inputs |= {"s_axis_tlast": random.getrandbits(1), "s_axis_tkeep": random.choice([FULL, 1])}
            if offered and ready:
                self._expect(beats.pop(0))
                offered = False
            room_before = [now_room, room_before[0]]
            low = 0 if now_room else low + 1
            if not self.read("beats_valid"):
                place = self.fields("beats_payload")
                assert not place.first, f"cycle {self.now}: first without a beat"
                assert not place.second, f"cycle {self.now}: second without a beat"
            await self.cycle(**inputs)
        self.dut.room.value = 1
        await self.cycle(s_axis_tvalid=0)
        for _ in range(PACE + 2):
            await self.cycle(s_axis_tvalid=0)
        assert self.read("s_axis_tready")

    def _expect(self, beat: Beat) -> None:
        if beat.index == 0:
            self.starts.append(self.now)
        fields = {
            "data": beat.data,
            "count": beat.count,
            "first": int(beat.index == 0),
            "second": int(beat.index == 1),
            "last": int(beat.last),
        }
        if beat.last:
            fields["bad"] = int(beat.bad)
        self.due(1, beats_valid=1, beats_payload=fields)


def mixture(number: int) -> list[list[Beat]]:
    frames = []
    for _ in range(number):
        beats = random.choice([1, 1, 1, 2, 2, 3, 4, 5, 9])
        partial = random.randrange(beats) if random.random() < 0.2 else None
        bad, empty = random.random() < 0.2, random.random() < 0.1
        frames.append(frame(beats, bad=bad, partial=partial, empty=empty))
    return frames


@TB.test()
@cocotb.parametrize(offer=[1.0, 0.6, 0.2], room=[1.0, 0.8, 0.3])
async def beats_with_their_place(tb, offer, room):
    frames = mixture(250)
    await tb.run(frames, offer=offer, room=room)
    spacing = [b - a for a, b in zip(tb.starts, tb.starts[1:], strict=False)]
    assert min(spacing) >= PACE


@TB.test()
async def every_count(tb):
    await tb.run([made for _ in range(6) for made in (frame(1), frame(2), frame(3)) for _ in range(12)])


@TB.test()
async def idle_cycles_are_those_that_are_missing(tb):
    """Check that a frame of fewer beats than the pace costs the missing cycles, and any other none."""
    sizes = [*range(1, 8), *random.choices(range(1, 8), k=200)]
    await tb.run([frame(size) for size in sizes])
    spacing = [b - a for a, b in zip(tb.starts, tb.starts[1:], strict=False)]
    assert spacing == [max(size, PACE) for size in sizes[:-1]]


@TB.test()
async def ready_is_a_register(tb):
    """Within a cycle ``tready`` follows neither ``tvalid`` nor ``tlast`` nor ``room``."""
    dut = tb.dut
    changes = 0
    for _ in range(300):
        before = tb.read("s_axis_tready")
        dut.s_axis_tvalid.value = random.getrandbits(1)
        dut.s_axis_tlast.value = random.getrandbits(1)
        dut.s_axis_tkeep.value = FULL
        dut.room.value = random.getrandbits(1)
        await Timer(1, "ns")
        await ReadOnly()
        assert tb.read("s_axis_tready") == before
        await FallingEdge(dut.aclk)
        changes += tb.read("s_axis_tready") != before
    assert changes > 50
