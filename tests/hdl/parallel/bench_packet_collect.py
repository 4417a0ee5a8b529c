# SPDX-License-Identifier: BSD-2-Clause
"""cocotb bench of PacketCollect: frames of several engines, late and early, leave in order.

Parameter ``engines``.
"""

import random

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge
from cocotbext.axi import AxiStreamFrame
from engine_bench import gaps

from inceptionn.hdl.parallel.collect_queue import CollectQueue
from inceptionn.hdl.parallel.packet_dispatch import dispatched
from inceptionn.sim.runner import bench_parameters
from inceptionn.sim.testbench import TestBench
from inceptionn.wire import BURST_BYTES

ENGINES = bench_parameters()["engines"]
BEAT_BYTES = ENGINES * BURST_BYTES
IN_FLIGHT = 56
LIMIT = 4000


class TB(TestBench):
    """Engines that take each frame some time after its dispatch."""

    def __init__(self, dut):
        super().__init__(dut)
        self.sink = self.stream_sink()
        self.engines = [self.stream_source(f"s_axis_{i}") for i in range(ENGINES)]
        self.open = [0] * ENGINES
        self.gaps = 0
        """Cycles inside a frame without a beat though the sink was ready."""

    async def start(self) -> None:
        self.dut.frames_valid.value = 0
        await self.reset(8, 2)
        cocotb.start_soon(self._watch())

    async def _watch(self) -> None:
        dut, inside = self.dut, False
        while True:
            await RisingEdge(dut.aclk)
            for i in range(ENGINES):
                self.open[i] -= int(getattr(dut, f"collected_{i}").value)
            if dut.m_axis_tvalid.value:
                if dut.m_axis_tready.value:
                    inside = not dut.m_axis_tlast.value
            else:
                self.gaps += inside and bool(dut.m_axis_tready.value)

    async def dispatch(self, frame: bytes, bad: bool, shared: bool) -> None:
        """Announces a frame and gives it to its engine's source; another one's copy differs."""
        owner = random.randrange(ENGINES)
        targets = range(ENGINES) if shared else [owner]
        while max(self.open[i] for i in targets) >= IN_FLIGHT:
            await RisingEdge(self.dut.aclk)
        self.dut.frames_valid.value = 1
        route = {"owner": owner, "targets": sum(1 << i for i in targets)}
        self.dut.frames_payload.value = dispatched(ENGINES).const(route).as_bits()
        await RisingEdge(self.dut.aclk)
        self.dut.frames_valid.value = 0
        await ClockCycles(self.dut.aclk, random.choice([1, 1, 2, 5]))
        for i in targets:
            self.open[i] += 1
            data = frame if i == owner else random.randbytes(random.randint(1, 300))
            rest = (len(data) - 1) % BURST_BYTES + 1
            await self.engines[i].send(
                AxiStreamFrame(data, tuser=[0] * (len(data) - rest) + [int(bad)] * rest)
            )

    async def check(self, frame: bytes, bad: bool) -> None:
        for _ in range(LIMIT):
            if not self.sink.empty():
                break
            await RisingEdge(self.dut.aclk)
        else:
            raise AssertionError(f"no frame for {LIMIT} cycles")
        came = self.sink.recv_nowait()
        user = came.tuser if isinstance(came.tuser, int) else came.tuser[-1]
        assert bytes(came.tdata) == frame, f"{len(came.tdata)} bytes, not the {len(frame)} that were due"
        assert bool(user) == bad

    async def run(self, frames: list[tuple[bytes, bool, bool]]) -> None:
        async def send() -> None:
            for frame in frames:
                await self.dispatch(*frame)

        sending = cocotb.start_soon(send())
        for frame, bad, _ in frames:
            await self.check(frame, bad)
        await sending
        await ClockCycles(self.dut.aclk, 600)
        assert self.sink.empty()
        assert self.open == [0] * ENGINES, f"frames not accounted for: {self.open}"


@TB.test()
@cocotb.parametrize(late=[0.0, 0.5], stall=[0.0, 0.5])
async def in_order(tb, late, stall):
    for number, engine in enumerate(tb.engines):
        if late:
            engine.set_pause_generator(gaps(late, 5 + 50 * number))
    if stall:
        tb.sink.set_pause_generator(gaps(stall, 6))
    sizes = [1, 31, 32, 33, 63, 64, 65, 128, 500, 1514]
    frames = [
        (random.randbytes(random.choice(sizes)), random.random() < 0.2, random.random() < 0.2)
        for _ in range(70)
    ]
    await tb.run(frames)
    assert not tb.gaps, f"{tb.gaps} gaps inside frames"


@TB.test()
async def longer_than_it_holds(tb):
    """Check that a frame longer than the memory leaves in pieces; those around it are not affected."""
    most = CollectQueue.MOST_WORDS * BEAT_BYTES
    sizes = [most - 1, most, most + 1, 2 * most, 2 * most + 5 * BEAT_BYTES + 1, 100, 64]
    await tb.run([(random.randbytes(size), False, False) for size in sizes])


@TB.test()
async def output_stalled_for_long(tb):
    """Check that the memories fill, the engines wait, and nothing is lost."""
    tb.sink.pause = True

    async def release() -> None:
        await ClockCycles(tb.dut.aclk, 1500)
        for i in range(ENGINES):
            assert not getattr(tb.dut, f"s_axis_{i}_tready").value, "room without end"
        tb.sink.pause = False

    releasing = cocotb.start_soon(release())
    await tb.run([(random.randbytes(1514), False, False) for _ in range(25 * ENGINES)])
    await releasing
