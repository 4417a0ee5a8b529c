# SPDX-License-Identifier: BSD-2-Clause
"""cocotb bench of OutputQueue: beats pushed in, frames out of an AXI4-Stream, under any back-pressure."""

import itertools
import random

import cocotb
from chosen_width import WIDTH
from cocotb.triggers import RisingEdge
from lockstep import Lockstep

from inceptionn.hdl.parts.output_queue import output_beat
from inceptionn.sim.runner import bench_parameters

SLACK = bench_parameters()["slack"]
LANES = WIDTH.lanes
BEAT_BYTES = WIDTH.bytes
OutputBeat = output_beat(WIDTH)


class TB(Lockstep):
    """Pushes frames as long as there is room, and ``SLACK`` beats more; a sink takes them."""

    def __init__(self, dut):
        super().__init__(dut, pulses=("i_valid",))
        self.sink = self.stream_sink()
        self.credit = SLACK
        self.frames: list[tuple[bytes, bool]] = []
        self.keeps: list[int] = []
        cocotb.start_soon(self._watch())

    async def _watch(self) -> None:
        """Record ``tkeep`` of every beat, and hold the stream to its rules (IHI 0051A, 2.2.1)."""
        dut, waiting = self.dut, None
        signals = [dut.m_axis_tdata, dut.m_axis_tkeep, dut.m_axis_tuser, dut.m_axis_tlast]
        while True:
            await RisingEdge(dut.aclk)
            beat = [int(signal.value) for signal in signals] if dut.m_axis_tvalid.value else None
            if dut.aresetn.value == 0:
                waiting = None
                continue
            assert waiting is None or beat == waiting, "a beat changed before it was accepted"
            waiting = beat if not dut.m_axis_tready.value else None
            if beat is not None and waiting is None:
                self.keeps.append(beat[1])

    async def send(self, data: bytes, bad: bool) -> None:
        """Send a frame, a beat per cycle where there is room; its last beat holds noise after its end."""
        self.frames.append((data, bad))
        beats = [data[at : at + BEAT_BYTES] for at in range(0, len(data), BEAT_BYTES)]
        for index, beat in enumerate(beats):
            while not self.read("room") and not self.credit:
                await self.cycle(i_payload=random.getrandbits(OutputBeat.size))
            self.credit = SLACK if self.read("room") else self.credit - 1
            last = index == len(beats) - 1
            filled = beat + random.randbytes(BEAT_BYTES - len(beat))
            # Where a beat is not the last, its length means nothing.
            ending = len(beat) % BEAT_BYTES if last else random.randrange(BEAT_BYTES)
            pushed = OutputBeat.const(
                {"tdata": int.from_bytes(filled, "little"), "tlast": last, "tuser": bad, "ending": ending}
            )
            await self.cycle(i_valid=1, i_payload=pushed.as_bits())

    async def check(self) -> None:
        """All frames came, with every byte of every beat but the last one kept."""
        for data, bad in self.frames:
            while self.sink.empty():
                await self.cycle()
            frame = self.sink.recv_nowait(compact=False)
            kept = bytes(byte for byte, keep in zip(frame.tdata, frame.tkeep, strict=True) if keep)
            assert kept == data
            user = frame.tuser if isinstance(frame.tuser, list) else [frame.tuser]
            assert set(user) == {int(bad)}
            for at in range(0, len(data), BEAT_BYTES):
                keep = self.keeps.pop(0)
                assert keep == (1 << min(BEAT_BYTES, len(data) - at)) - 1, f"tkeep {keep:#x} at byte {at}"
        await self.drain()
        assert self.sink.empty()
        assert self.sink.idle()
        assert not self.keeps


@TB.test()
@cocotb.parametrize(stall=[0.0, 0.5, 0.9])
async def every_length(tb, stall):
    """Last beats of every length, frames of one beat and more."""
    if stall:
        tb.sink.set_pause_generator(random.random() < stall for _ in itertools.count())
    lengths = [*range(1, 4 * BEAT_BYTES), 1500, 9216]
    random.shuffle(lengths)
    for length in lengths if not stall else lengths[:30]:
        await tb.send(random.randbytes(length), bool(random.getrandbits(1)))
    await tb.check()


@TB.test()
async def stalled_for_long(tb):
    """Check that the queue fills to the last place while the sink sleeps, and that nothing is lost."""
    for _ in range(5):
        tb.sink.set_pause_generator(itertools.chain([True] * 200, itertools.repeat(False)))
        for _ in range(20):
            await tb.send(random.randbytes(random.randint(1, 300)), False)
    await tb.check()


@TB.test()
async def a_beat_per_cycle(tb):
    begin = tb.now
    await tb.send(random.randbytes(BEAT_BYTES * 100), False)
    assert tb.now - begin == 100
    await tb.check()
