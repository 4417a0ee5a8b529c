# SPDX-License-Identifier: BSD-2-Clause
"""cocotb bench of FrameQueue: whole frames without a gap, their length and word, and which are dropped."""

import random

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge
from cocotbext.axi import AxiStreamFrame

from inceptionn.sim.runner import bench_parameters
from inceptionn.sim.testbench import TestBench

PARAMETERS = bench_parameters()
BYTES, DEPTH = PARAMETERS["data_bytes"], PARAMETERS["depth"]
DROP_BAD, LOSSY = PARAMETERS["drop_bad"], PARAMETERS["lossy"]
FRAMES = PARAMETERS["frames"]
LONGEST = (DEPTH - 1) * BYTES


class TB(TestBench):
    """Source, sink, and a watch on gaps, lengths and drops."""

    def __init__(self, dut):
        super().__init__(dut)
        self.source, self.sink = self.stream_source(), self.stream_sink()
        self.lengths: list[tuple[int, int]] = []
        self.entered = self.dropped = 0

    async def start(self) -> None:
        self.dut.s_word.value = 0
        await self.reset()
        cocotb.start_soon(self._watch())

    async def _watch(self) -> None:
        dut, inside = self.dut, None
        while True:
            await RisingEdge(dut.aclk)
            self.entered += int(dut.s_axis_tvalid.value & dut.s_axis_tready.value & dut.s_axis_tlast.value)
            dut.s_word.value = self.entered  # the number of the frame that enters
            self.dropped += int(dut.dropped.value)
            assert not LOSSY or int(dut.s_axis_tready.value)
            if int(dut.m_axis_tvalid.value):
                note = int(dut.length.value), int(dut.word.value)
                assert inside in (None, note), "length or word changed inside a frame"
                if int(dut.m_axis_tready.value):
                    inside = None if int(dut.m_axis_tlast.value) else note
                    if inside is None:
                        self.lengths.append(note)
            else:
                assert inside is None, "tvalid fell inside a frame"

    async def send(self, frames: list[tuple[bytes, bool]]) -> None:
        for data, bad in frames:
            user = [random.getrandbits(1)] * (len(data) - 1 - (len(data) - 1) % BYTES)
            user += [int(bad)] * (len(data) - len(user))
            self.source.send_nowait(AxiStreamFrame(data, tuser=user))
        await self.source.wait()

    async def check(self, frames: list[tuple[bytes, bool]], expected: list[int]) -> None:
        """Check that the frames of these numbers come out, and no other."""
        for number in expected:
            waited = 0
            while self.sink.empty():
                await RisingEdge(self.dut.aclk)
                waited += 1
                assert waited < 4 * DEPTH + 200, f"frame {number} did not come"
            frame = self.sink.recv_nowait()
            data, bad = frames[number]
            assert bytes(frame.tdata) == data, f"frame {number}"
            mark = frame.tuser[-1] if isinstance(frame.tuser, list) else frame.tuser
            assert bool(mark) == bad
            assert self.lengths.pop(0) == (len(data), number)
        await ClockCycles(self.dut.aclk, 40)
        assert self.sink.empty()
        assert self.sink.idle()


def pauses(probability: float):
    while True:
        yield random.random() < probability


@TB.test(timeout_time=400, timeout_unit="us")
@cocotb.parametrize(source=[0.0, 0.5], sink=[0.0, 0.6])
async def whole_frames(tb, source, sink):
    """Every length around a beat, gaps on both sides, many short frames; bad ones marked or dropped."""
    tb.source.set_pause_generator(pauses(source))
    sizes = [1, BYTES - 1, BYTES, BYTES + 1, 3 * BYTES, *(random.randint(1, 6 * BYTES) for _ in range(20))]
    sizes += [random.randint(1, BYTES) for _ in range(200)]
    frames = [(random.randbytes(size), random.random() < 0.2) for size in sizes]
    expected = [number for number, (_, bad) in enumerate(frames) if not (bad and DROP_BAD)]
    if not LOSSY:
        tb.sink.set_pause_generator(pauses(sink))
    sending = cocotb.start_soon(tb.send(frames))
    await tb.check(frames, expected)
    await sending
    assert tb.dropped == len(frames) - len(expected)


@TB.test(timeout_time=400, timeout_unit="us")
async def too_long(tb):
    """Check that a frame that can never be whole inside is dropped.

    The longest that fits passes, and so do its neighbours, which come after a pause, when it begins to leave.
    """
    sizes = [LONGEST, LONGEST + 1, 5, 3 * LONGEST, LONGEST, BYTES]
    frames = [(random.randbytes(size), False) for size in sizes]

    async def send() -> None:
        for frame in frames:
            await tb.send([frame])
            await ClockCycles(tb.dut.aclk, 10)

    sending = cocotb.start_soon(send())
    await tb.check(frames, [0, 2, 4, 5])
    await sending
    assert tb.dropped == 2


@TB.test(timeout_time=400, timeout_unit="us")
@cocotb.parametrize(beats=[1, 3])
async def stalled_output(tb, beats):
    """Short frames fill the places of lengths, long ones those of beats.

    A source that cannot wait loses what does not fit, by whole frames; all else is delivered.
    """
    tb.sink.pause = True
    frames = [(random.randbytes(beats * BYTES), False) for _ in range(DEPTH)]
    sending = cocotb.start_soon(tb.send(frames))
    await ClockCycles(tb.dut.aclk, 8 * beats * DEPTH)
    assert sending.done() == LOSSY
    held = tb.entered - tb.dropped
    assert (FRAMES - 3 <= held <= FRAMES) if beats == 1 else (DEPTH - 1) // beats <= held < FRAMES - 3
    tb.sink.pause = False
    await tb.check(frames, list(range(held if LOSSY else DEPTH)))
    await sending
