# SPDX-License-Identifier: BSD-2-Clause
"""cocotb bench of PacketDispatch: whole frames to one engine each or to all, in order, with their settings.

Parameters ``engines``, ``flows``; ``bf16``, not needed: engines with bf16 lanes.
"""

import random
from collections import deque

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge
from cocotbext.axi import AxiStreamFrame
from engine_bench import bits, gaps
from flows import random_flow, segment

from inceptionn.hdl.control.config import EngineConfig as ConfigBits
from inceptionn.hdl.parallel.packet_dispatch import MOST_FRAMES, dispatched
from inceptionn.sim.golden import EngineConfig
from inceptionn.sim.golden.packets import FIN, RST, SYN, tcp, udp
from inceptionn.sim.runner import bench_parameters
from inceptionn.sim.testbench import TestBench
from inceptionn.wire import BURST_BYTES

ENGINES, FLOWS = bench_parameters()["engines"], bench_parameters()["flows"]
BEAT_BYTES = ENGINES * BURST_BYTES
BF16 = bench_parameters().get("bf16", False)
TOS_AT = ConfigBits.as_shape().size
"""Where the ToS byte of bf16 lanes follows the other settings."""


def settings_of(config: EngineConfig, bf16_tos: int = 0x2C) -> int:
    """All settings of a frame as one number."""
    return bits(config) | (bf16_tos << TOS_AT if BF16 else 0)


CONFIGS = [settings_of(EngineConfig(max_payload=9000 - n), 0x2C + 4 * n) for n in range(5)]
ROUTE = dispatched(ENGINES)
LIMIT = 3000
"""Cycles without a frame that count as a hang."""


class TB(TestBench):
    """Source, one sink for each engine, and engines' answers: a frame is done some cycles after it came."""

    def __init__(self, dut):
        super().__init__(dut)
        self.source = self.stream_source()
        self.sinks = [self.stream_sink(f"m_axis_{i}") for i in range(ENGINES)]
        self.way: list[tuple[int, int]] = []
        """Owner and targets of every frame."""
        self.settings: deque[int] = deque()
        self.found: list[list[int]] = [[] for _ in range(ENGINES)]
        """Settings that each engine saw, frame by frame."""
        self.answering = True
        self.most_open = 0

    async def start(self) -> None:
        dut = self.dut
        for i in range(ENGINES):
            getattr(dut, f"collected_{i}").value = 0
            getattr(dut, f"reported_{i}").value = 0
        await self.reset(8, 2)
        cocotb.start_soon(self._watch())
        for i in range(ENGINES):
            cocotb.start_soon(self._engine(i))

    async def _watch(self) -> None:
        """Drive the settings of a frame in the cycle after its first beat, and noise in any other."""
        dut, first = self.dut, True
        while True:
            await RisingEdge(dut.aclk)
            value = random.getrandbits(TOS_AT + 8 * BF16)
            if dut.s_axis_tvalid.value and dut.s_axis_tready.value:
                if first:
                    value = self.settings.popleft()
                first = bool(dut.s_axis_tlast.value)
            dut.config.value = value % (1 << TOS_AT)
            if BF16:
                dut.bf16_tos.value = value >> TOS_AT
            if dut.frames_valid.value:
                route = ROUTE.from_bits(int(dut.frames_payload.value))
                self.way.append((route.owner, route.targets))

    async def _engine(self, i: int) -> None:
        dut = self.dut
        valid, ready, last = (getattr(dut, f"m_axis_{i}_{name}") for name in ("tvalid", "tready", "tlast"))
        shown = [getattr(dut, f"engine_{name}_{i}") for name in ("config", *(["bf16_tos"] * BF16))]
        collected, reported = getattr(dut, f"collected_{i}"), getattr(dut, f"reported_{i}")
        first, look, ended, counted, opened = True, False, 0, 0, 0
        while True:
            await RisingEdge(dut.aclk)
            if look:
                self.found[i].append(sum(int(part.value) << at * TOS_AT for at, part in enumerate(shown)))
            look = bool(valid.value and ready.value and first)
            if valid.value and ready.value:
                first = bool(last.value)
                ended += first
            if dut.frames_valid.value:
                opened += ROUTE.from_bits(int(dut.frames_payload.value)).targets >> i & 1
            self.most_open = max(self.most_open, opened - counted)
            done = self.answering and counted < ended and random.random() < 0.5
            collected.value = reported.value = int(done)
            counted += done

    async def send(self, frames: list[bytes], bad: list[bool] | None = None) -> list[int]:
        """Queues frames; returns the settings that go with each."""
        configs = [random.choice(CONFIGS) for _ in frames]
        self.settings.extend(configs)
        for frame, mark in zip(frames, bad or [False] * len(frames), strict=True):
            rest = (len(frame) - 1) % BEAT_BYTES + 1
            user = [random.getrandbits(1)] * (len(frame) - rest) + [int(mark)] * rest
            await self.source.send(AxiStreamFrame(frame, tuser=user))
        return configs

    async def frame(self, i: int) -> AxiStreamFrame:
        for _ in range(LIMIT):
            if not self.sinks[i].empty():
                return self.sinks[i].recv_nowait()
            await RisingEdge(self.dut.aclk)
        raise AssertionError(f"engine {i}: no frame for {LIMIT} cycles")


async def check(tb: TB, frames: list[bytes], bad: list[bool], configs: list[int]) -> None:
    """Every frame came to its targets, whole, in order, with its mark and settings."""
    for number, (frame, mark) in enumerate(zip(frames, bad, strict=True)):
        for _ in range(LIMIT):
            if len(tb.way) > number:
                break
            await RisingEdge(tb.dut.aclk)
        owner, targets = tb.way[number]
        assert targets in (1 << owner, (1 << ENGINES) - 1)
        for i in range(ENGINES):
            if targets >> i & 1:
                came = await tb.frame(i)
                assert bytes(came.tdata) == frame, f"frame {number} at engine {i}"
                user = came.tuser if isinstance(came.tuser, int) else came.tuser[-1]
                assert bool(user) == mark, f"frame {number} at engine {i}"
    await ClockCycles(tb.dut.aclk, 30)
    for i in range(ENGINES):
        assert tb.sinks[i].empty()
        assert tb.found[i] == [c for c, (_, targets) in zip(configs, tb.way, strict=True) if targets >> i & 1]


def mixture(count: int) -> list[bytes]:
    sizes = [1, 31, 32, 33, 64, 65, 127, 128, 129, 400, 1514]
    return [random.randbytes(random.choice(sizes)) for _ in range(count)]


@TB.test()
@cocotb.parametrize(idle=[0.0, 0.4], stall=[0.0, 0.5])
async def whole_frames(tb, idle, stall):
    if idle:
        tb.source.set_pause_generator(gaps(idle, 4))
    for sink in tb.sinks:
        if stall:
            sink.set_pause_generator(gaps(stall, 20))
    frames = mixture(50)
    bad = [random.random() < 0.2 for _ in frames]
    await check(tb, frames, bad, await tb.send(frames, bad))


@TB.test()
async def long_frames(tb):
    """Check that a frame longer than a queue passes while it comes."""
    frames = [random.randbytes(512 * BEAT_BYTES + 1000), *mixture(5)]
    await check(tb, frames, [False] * 6, await tb.send(frames))


@TB.test()
async def every_engine_gets_its_share(tb):
    """By words waiting, not by frames: long and short ones in turn would else load one engine."""
    frames = [random.randbytes(size) for _ in range(20) for size in (1514, 60)]
    await check(tb, frames, [False] * len(frames), await tb.send(frames))
    load = [
        sum(len(f) for f, (owner, _) in zip(frames, tb.way, strict=True) if owner == i)
        for i in range(ENGINES)
    ]
    assert min(load) > 0.8 * sum(load) / ENGINES, f"bytes for each engine: {load}"


@TB.test()
async def waits_for_engines(tb):
    """No more frames than the queues of frames hold, and none lost."""
    tb.answering = False
    frames = [random.randbytes(20) for _ in range((MOST_FRAMES + 30) * ENGINES)]
    configs = await tb.send(frames)
    await ClockCycles(tb.dut.aclk, 1400)
    assert MOST_FRAMES - 8 < tb.most_open <= MOST_FRAMES
    tb.answering = True
    await check(tb, frames, [False] * len(frames), configs)


@TB.test(skip=not FLOWS)
async def shared_frames(tb):
    """Frames that may change the flow table go to all engines, others to one."""
    plain, learning = (settings_of(EngineConfig(learn_phases=learns)) for learns in (False, True))
    cases = [
        (tcp(bytes(400)), plain, False), (udp(bytes(400)), learning, False),
        (tcp(b"", flags=SYN), plain, True),
        (tcp(b"", flags=FIN, tos=0), plain, True), (tcp(bytes(99), flags=RST), plain, True),
        (tcp(bytes(400)), learning, True), (tcp(bytes(400), tos=0), learning, False),
        (tcp(bytes(400), tos=0x2C), learning, BF16),
    ]  # fmt: skip
    frames, configs, expected = (list(column) for column in zip(*cases, strict=True))
    for frame, config in zip(frames, configs, strict=True):
        tb.settings.append(config)
        await tb.source.send(AxiStreamFrame(frame))
    await check(tb, frames, [False] * len(frames), configs)
    assert [targets == (1 << ENGINES) - 1 for _, targets in tb.way] == expected


@TB.test(skip=not FLOWS)
async def begins_and_ends_at_once(tb):
    """Segments that all engines must see wait for all of them, and none is lost."""
    frames = [segment(random_flow(), payload=b"", flags=random.choice([SYN, FIN, RST])) for _ in range(120)]
    await check(tb, frames, [False] * len(frames), await tb.send(frames))
    assert {targets for _, targets in tb.way} == {(1 << ENGINES) - 1}


@TB.test(skip=not FLOWS)
async def latency(tb):
    """Of an idle dispatcher, from a frame's first word in to its first burst out."""
    dut = tb.dut
    for frame in (udp(bytes(64)), tcp(bytes(400)), tcp(bytes(400), flags=SYN)):
        configs = await tb.send([frame])
        while not dut.s_axis_tvalid.value:
            await RisingEdge(dut.aclk)
        count = 0
        while not any(getattr(dut, f"m_axis_{i}_tvalid").value for i in range(ENGINES)):
            await RisingEdge(dut.aclk)
            count += 1
            assert count < 100, "no burst"
        assert count == 14, f"{count} cycles"
        await check(tb, [frame], [False], configs)
        tb.way.clear()
        for found in tb.found:
            found.clear()
