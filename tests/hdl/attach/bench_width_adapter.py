# SPDX-License-Identifier: BSD-2-Clause
"""cocotb bench of Widener and Narrower: frames come through whole, at full pace, holes are marked."""

import random

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge
from cocotb.utils import get_sim_time
from cocotbext.axi import AxiStreamFrame

from inceptionn.sim.runner import bench_parameters
from inceptionn.sim.testbench import TestBench

NARROW, WIDE = bench_parameters()["narrow_bytes"], bench_parameters()["wide_bytes"]
WIDENS = bench_parameters()["widens"]
SOURCE_BYTES = NARROW if WIDENS else WIDE


class TB(TestBench):
    """Source and sink."""

    def __init__(self, dut):
        super().__init__(dut)
        self.source, self.sink = self.stream_source(), self.stream_sink()

    async def run(self, frames: list[tuple[bytes, bool]], hole: int | None = None) -> int:
        """Check frames and marks; return cycles from the first beat to the last frame's end.

        ``hole``: the place of a byte that is missing in each frame.
        """
        for data, bad in frames:
            rest = (len(data) - 1) % SOURCE_BYTES + 1
            # Before the last beat, tuser says nothing.
            user = [random.getrandbits(1)] * (len(data) - rest) + [int(bad)] * rest
            keep = [1] * len(data)
            if hole is not None:
                keep[hole] = 0
            await self.source.send(AxiStreamFrame(data, tkeep=keep, tuser=user))
        begun = get_sim_time("ns")
        for data, bad in frames:
            waited = 0
            while self.sink.empty():
                await RisingEdge(self.dut.aclk)
                waited += 1
                assert waited < 2000, "no frame"
            frame = self.sink.recv_nowait(compact=False)
            assert hole is not None or frame.tkeep == sorted(frame.tkeep, reverse=True), "a hole"
            frame.compact()
            marks = frame.tuser if isinstance(frame.tuser, list) else [frame.tuser] * len(frame.tdata)
            assert bool(marks[-1]) == (bad or hole is not None)
            assert not (WIDENS and any(marks[: (len(marks) - 1) // WIDE * WIDE])), "marked early"
            assert hole is not None or bytes(frame.tdata) == data
        return int(get_sim_time("ns") - begun) // 4


@TB.test(timeout_time=200, timeout_unit="us")
@cocotb.parametrize(source=[0.0, 0.5], sink=[0.0, 0.5])
async def every_length(tb, source, sink):
    """Lengths around both widths, gaps and back-pressure, some frames marked bad."""
    for end, probability in ((tb.source, source), (tb.sink, sink)):
        end.set_pause_generator(iter(lambda p=probability: random.random() < p, None))
    sizes = [*range(1, 2 * WIDE + 2), *(random.randint(1, 5 * WIDE) for _ in range(20))]
    await tb.run([(random.randbytes(size), random.random() < 0.2) for size in sizes])
    await ClockCycles(tb.dut.aclk, 8)
    assert tb.sink.empty()
    assert tb.sink.idle()


@TB.test(timeout_time=200, timeout_unit="us")
async def full_pace(tb):
    """Check that a narrow beat passes per cycle, back to back."""
    cycles = await tb.run([(random.randbytes(4 * WIDE), False) for _ in range(20)])
    assert cycles <= 20 * 4 * WIDE // NARROW + 8


@TB.test(timeout_time=200, timeout_unit="us", skip=not WIDENS)
async def a_hole_makes_the_frame_bad(tb):
    """Check that a narrow beat before tlast that lacks any one byte spoils its frame, but not the next."""
    for hole in range(NARROW):
        await tb.run([(random.randbytes(2 * NARROW + 1), False)], hole=hole)
        await tb.run([(random.randbytes(3 * WIDE), False)])


@TB.test(timeout_time=200, timeout_unit="us")
async def reset_within_a_frame(tb):
    """Check that what follows a reset starts in byte 0, is good, and waits for nothing that came before."""
    for beats in range(1, 2 * WIDE // NARROW + 1):
        for size in (4 * WIDE, WIDE + 1):
            keep = [int(not WIDENS), *[1] * (size - 1)]
            await tb.source.send(AxiStreamFrame(random.randbytes(size), tkeep=keep, tuser=[1] * size))
        await ClockCycles(tb.dut.aclk, 2 + beats)
        await tb.reset()
        assert not int(tb.dut.m_axis_tvalid.value)
        await tb.run([(random.randbytes(WIDE + 1), False)])


@TB.test(timeout_time=200, timeout_unit="us")
async def takes_a_beat_before_it_is_asked(tb):
    """``tready`` of an empty adapter waits for no ``tready`` behind it."""
    tb.sink.pause = True
    await tb.source.send(AxiStreamFrame(bytes(1)))
    await ClockCycles(tb.dut.aclk, 6)
    assert int(tb.dut.m_axis_tvalid.value)
