# SPDX-License-Identifier: BSD-2-Clause
"""cocotb bench of FrameGuard: each side sees whole frames, whenever the other is reset."""

import random

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge
from cocotbext.axi import AxiStreamFrame

from inceptionn.sim.testbench import TestBench

FRAMES = 300


class TB(TestBench):
    """A source and a sink, each reset when a test says so, and what went in and came out."""

    def __init__(self, dut):
        super().__init__(dut)
        self.source = self.stream_source(reset=dut.source_reset)
        self.sink = self.stream_sink(reset=dut.sink_reset)
        self.sent: list[tuple[bytes, bool | None]] = []
        """Bytes and bad mark of each frame that began; None: the source was reset in its middle."""
        self.came: list[tuple[bytes, bool | None]] = []
        """The same of each that began to leave; None: the sink was reset in its middle."""

    async def start(self, stall: float) -> None:
        dut = self.dut
        for end in (self.source, self.sink):
            end.set_pause_generator(iter(lambda: random.random() < stall, None))
        dut.source_reset.value = dut.sink_reset.value = 1
        await self.reset(after=0)
        dut.source_reset.value = dut.sink_reset.value = 0
        cocotb.start_soon(self._watch("s_axis", "source_reset", self.sent))
        cocotb.start_soon(self._watch("m_axis", "sink_reset", self.came))

    async def _watch(self, prefix: str, reset: str, frames: list[tuple[bytes, bool | None]]) -> None:
        part, offered = bytearray(), None
        valid, ready, data, keep, user, last, in_reset = (
            getattr(self.dut, name)
            for name in (
                *(f"{prefix}_{name}" for name in ("tvalid", "tready", "tdata", "tkeep", "tuser", "tlast")),
                reset,
            )
        )
        while True:
            await RisingEdge(self.dut.aclk)
            if int(in_reset.value):
                assert prefix == "s_axis" or not int(valid.value), "a beat is offered to a sink in reset"
                if part:
                    frames.append((bytes(part), None))
                    part.clear()
                offered = None
                continue
            shown = [signal.value for signal in (data, keep, user, last)] if int(valid.value) else None
            assert offered is None or shown == offered, f"{prefix}: an offer was changed or taken back"
            offered = None if int(ready.value) else shown
            if shown is not None and int(ready.value):
                part += int(data.value).to_bytes(32, "little")[: int(keep.value).bit_count()]
                if int(last.value):
                    frames.append((bytes(part), bool(int(user.value))))
                    part.clear()

    async def traffic(self) -> None:
        for _ in range(FRAMES):
            frame = random.randbytes(random.choice((1, 31, 32, 33, 64, 65, 200)))
            last = (len(frame) - 1) % 32 + 1
            bad = [0] * (len(frame) - last) + [int(random.random() < 0.2)] * last
            await self.source.send(AxiStreamFrame(frame, tuser=bad))
            while self.source.count() > 2:
                await RisingEdge(self.dut.aclk)

    async def resets(self, side: str) -> None:
        """For ever: a reset of this side now and then, as short as a cycle."""
        signal = getattr(self.dut, f"{side}_reset")
        while True:
            await ClockCycles(self.dut.aclk, random.randint(1, 40))
            signal.value = 1
            await ClockCycles(self.dut.aclk, random.choice((1, 1, 2, 3, 20)))
            signal.value = 0

    def judge(self) -> None:
        """One frame came for each that was sent; the counts of frames that either side cut."""
        assert len(self.came) == len(self.sent)
        for (sent, bad), (came, marked) in zip(self.sent, self.came, strict=True):
            if bad is None:  # one byte more, of no meaning
                assert came[: len(sent)] == sent[: len(came)]
                assert marked is None or (marked and len(came) == len(sent) + 1)
            elif marked is None:
                assert sent.startswith(came)
                assert len(came) < len(sent)
            else:
                assert (came, marked) == (sent, bad)


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(stall=[0.0, 0.5], sides=[(), ("source",), ("sink",), ("source", "sink")])
async def frames_stay_whole(dut, stall, sides):
    tb = TB(dut)
    await tb.start(stall)
    running = [cocotb.start_soon(tb.resets(side)) for side in sides]
    await tb.traffic()
    for task in running:
        task.cancel()
    dut.source_reset.value = dut.sink_reset.value = 0
    await ClockCycles(dut.aclk, 200)
    tb.judge()
    assert any(bad is None for _, bad in tb.sent) == ("source" in sides)
    assert any(bad is None for _, bad in tb.came) == ("sink" in sides)
    if not sides:
        assert len(tb.sent) == FRAMES
    if not (sides or stall):
        assert dut.m_axis_tvalid.value == 0
