# SPDX-License-Identifier: BSD-2-Clause
"""cocotb bench of StandaloneCompressor: packets of fp32 bursts in, blocks out, against the golden model."""

import itertools
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge
from cocotbext.axi import AxiStreamFrame
from compressor_blocks import (
    ALL_PARAMETERS,
    BEAT_BYTES,
    CODEC,
    DEFAULT,
    LENGTHS,
    WIDTH,
    any_parameters,
    block_of,
    some_lanes,
    some_length,
)

from inceptionn.hdl.parts.top import Top
from inceptionn.sim.golden.codec import Bits
from inceptionn.sim.golden.values import KINDS
from inceptionn.sim.runner import bench_parameters
from inceptionn.sim.testbench import TestBench
from inceptionn.wire import MAX_LANES, Parameters

LATENCY = {"paper": {8: 30, 16: 35}, "planes": {8: 28, 16: 33}}[CODEC][WIDTH]
"""Cycles from a packet's last beat to its block's first, where the output is idle."""
PAUSE = {8: 1, 16: 0}[WIDTH]
"""Idle cycles that the input needs between packets."""
HOLD = 4
"""Cycles that codec parameters hold after a packet's last beat."""
SHORT = bench_parameters().get("short", False)
"""A smaller sweep, for a slower simulator."""


@dataclass(frozen=True)
class Packet:
    """Lanes as they are sent, and the numbers that they are compressed with."""

    lanes: Bits
    params: Parameters = DEFAULT

    @property
    def data(self) -> bytes:
        return self.lanes.astype("<u4").tobytes()

    @property
    def block(self) -> bytes:
        """What must come out: the block of the first 2304 lanes."""
        return block_of(self.lanes[:MAX_LANES], self.params)

    @property
    def overlong(self) -> bool:
        """Whether the block must be marked."""
        return len(self.lanes) > MAX_LANES

    @property
    def bursts(self) -> int:
        return -(-len(self.lanes) // WIDTH)


def pauses(probability: float, longest: int) -> Iterator[bool]:
    """Yield runs of up to ``longest`` cycles, each of which pauses with this probability."""
    while True:
        yield from itertools.repeat(random.random() < probability, random.randint(1, longest))


class TB(TestBench):
    """A source of packets with their parameters, a sink of blocks, and the cycles of both."""

    def __init__(self, dut):
        super().__init__(dut)
        self.cycle = 0
        self.accepted: list[tuple[int, bool]] = []
        """Cycle of every input beat, and whether it was a packet's last."""
        self.produced: list[tuple[int, bool]] = []
        self.marks: list[bool] = []
        """``tuser`` at every block's ``tlast``."""
        self.source, self.sink = self.stream_source(), self.stream_sink()
        self.set(DEFAULT)

    def set(self, params: Parameters) -> None:
        """Apply codec parameters at once."""
        self.dut.cfg_e0.value, self.dut.cfg_t.value, self.dut.cfg_b.value = params.e0, params.t, params.b

    async def start(self) -> None:
        await self.reset(8, 8)
        cocotb.start_soon(self._watch())

    async def _watch(self) -> None:
        """Count cycles, record handshakes, and hold the output to the rules of AXI4-Stream."""
        dut, waiting = self.dut, None
        while True:
            await RisingEdge(dut.aclk)
            self.cycle += 1
            if not dut.aresetn.value:
                waiting = None
                continue
            if dut.s_axis_tvalid.value and dut.s_axis_tready.value:
                self.accepted.append((self.cycle, bool(dut.s_axis_tlast.value)))
            beat = None
            if dut.m_axis_tvalid.value:
                beat = [int(dut.m_axis_tdata.value), int(dut.m_axis_tkeep.value), int(dut.m_axis_tlast.value)]
                full = beat[1] == (1 << BEAT_BYTES) - 1
                assert full or (beat[2] and beat[1] & (beat[1] + 1) == 0), f"tkeep is {beat[1]:#x}"
                beat.append(int(dut.m_axis_tuser.value))
                assert beat[2] or not beat[3], "a mark before the block's last beat"
            assert waiting is None or beat == waiting, "a beat changed or went before it was accepted"
            waiting = beat if not dut.m_axis_tready.value else None
            if beat is not None and waiting is None:
                self.produced.append((self.cycle, bool(beat[2])))
                self.marks += [bool(beat[3])] * beat[2]

    def pause(self, idle: Iterable[bool] | None, back_pressure: Iterable[bool] | None) -> None:
        """Pause generators of source and sink; None: never."""
        for end, generator in ((self.source, idle), (self.sink, back_pressure)):
            if generator is None:
                end.clear_pause_generator()
                end.pause = False
            else:
                end.set_pause_generator(iter(generator))

    async def run(self, packets: Iterable[Packet], cycles_per_beat: int = 2) -> None:
        """Send packets and check every block. Where parameters change, the source waits as it must."""
        packets = list(packets)
        self.accepted.clear()
        self.produced.clear()
        self.marks.clear()
        limit = self.cycle + 1000 + cycles_per_beat * sum(2 * packet.bursts + 20 for packet in packets)
        sender = cocotb.start_soon(self._send(packets))
        for index, packet in enumerate(packets):
            while self.sink.empty():
                await RisingEdge(self.dut.aclk)
                assert self.cycle < limit, f"{index} of {len(packets)} blocks after {self.cycle} cycles"
            found = bytes(self.sink.recv_nowait().tdata)
            expected = packet.block
            if found != expected:
                pairs = enumerate(zip(found, expected, strict=False))
                at = next((place for place, (one, other) in pairs if one != other), "the end")
                raise AssertionError(
                    f"block {index}: {len(packet.lanes)} lanes with {packet.params}: {len(found)} bytes, "
                    f"not {len(expected)}; they differ at {at}"
                )
        await sender
        await ClockCycles(self.dut.aclk, 60)
        assert self.sink.empty()
        assert self.sink.idle()
        assert len(self.accepted) == sum(packet.bursts for packet in packets)
        assert self.marks == [packet.overlong for packet in packets]

    async def _send(self, packets: list[Packet]) -> None:
        setting = None
        for packet in packets:
            if packet.params != setting:
                await self.source.wait()
                # The last beat moved at the edge before; the next can move at the one after HOLD more.
                await ClockCycles(self.dut.aclk, HOLD)
                self.set(setting := packet.params)
            await self.source.send(AxiStreamFrame(packet.data))

    def lost_at_input(self, packets: list[Packet]) -> list[int]:
        """Of each packet but the first: cycles from the last beat before it to its own, less its beats."""
        ends = [cycle for cycle, last in self.accepted if last]
        return [
            ends[index] - ends[index - 1] - packet.bursts for index, packet in enumerate(packets) if index
        ]

    def latency(self) -> int:
        """Cycles from the last packet's last input beat to the first output beat after the last but one."""
        ends = [index for index, (_, last) in enumerate(self.produced) if last]
        first = ends[-2] + 1 if len(ends) > 1 else 0
        return self.produced[first][0] - self.accepted[-1][0]


def kinds(count: int) -> Packet:
    return Packet(some_lanes(count, DEFAULT, random))


@TB.test()
async def nothing_comes_from_nothing(tb):
    await ClockCycles(tb.dut.aclk, 100)
    assert tb.dut.s_axis_tready.value == 1
    assert not tb.produced


@TB.test()
async def every_setting(tb):
    """All bounds and modes with all kinds of values, and other numbers; they change as soon as they may."""
    settings = [*ALL_PARAMETERS, *(any_parameters(random) for _ in range(20))]
    random.shuffle(settings)
    await tb.run(
        Packet(kind(random.randint(1, 50), random), params)
        for params in (settings[:12] if SHORT else settings)
        for kind in KINDS.values()
    )


@TB.test()
@cocotb.parametrize(idle=[0.0, 0.3, 0.9], back_pressure=[0.0, 0.3, 0.9])
async def every_length(tb, idle, back_pressure):
    counts = [*LENGTHS]
    if idle or back_pressure or SHORT:
        counts = [*random.sample(range(1, 65), 24), *random.sample(range(360, 371), 2)]
        counts += [random.choice(LENGTHS[75:])] if idle == back_pressure else []
    random.shuffle(counts)
    tb.pause(pauses(idle, 8) if idle else None, pauses(back_pressure, 40) if back_pressure else None)
    await tb.run((kinds(count) for count in counts), cycles_per_beat=30)


@TB.test()
@cocotb.parametrize(kind=list(KINDS))
async def every_kind_back_to_back(tb, kind):
    counts = [some_length(random) for _ in range(8 if SHORT else 40)]
    await tb.run(Packet(KINDS[kind](count, random)) for count in counts)


@TB.test()
@cocotb.parametrize(paused=[False, True])
async def overlong_packets_are_marked(tb, paused):
    """Packets of more than 2304 lanes, twice as many included, each with a good one after it."""
    if paused:
        tb.pause(pauses(0.3, 5), pauses(0.3, 20))
    counts = [MAX_LANES + 1, MAX_LANES + 8, MAX_LANES + 100, 2 * MAX_LANES, 2 * MAX_LANES + 3]
    for count in counts[:1] if SHORT else counts:
        await tb.run([kinds(count), kinds(some_length(random)), kinds(MAX_LANES)], cycles_per_beat=8)


@TB.test()
async def marks_keep_to_their_blocks(tb):
    """As many small blocks inside as fit, while an overlong packet's block waits among them."""
    for before in (0, 40):
        tb.pause(None, itertools.chain(itertools.repeat(True, 1500), itertools.repeat(False)))
        await tb.run([kinds(1)] * before + [kinds(MAX_LANES + 1)] + [kinds(1)] * 200)


@TB.test()
async def output_stalled_for_long(tb):
    """Everything inside fills up, the input stops, and nothing is lost."""
    for kind in ("zeros", "large", "gradients"):
        tb.pause(None, itertools.chain(itertools.repeat(True, 1500), itertools.repeat(False)))
        await tb.run([Packet(KINDS[kind](count, random)) for count in [1] * 150 + [362] * 20])
        stop = max(after - before for (before, _), (after, _) in itertools.pairwise(tb.accepted))
        assert stop > 500, "the input did not have to wait for the output"


@TB.test()
@cocotb.parametrize(kind=["gradients", "zeros", "large"])
async def one_beat_per_cycle(tb, kind):
    """In, but for the pause between packets; or out, where blocks of raw lanes are longer than packets."""
    for count in (16, 362, MAX_LANES):
        packets = [Packet(KINDS[kind](count, random)) for _ in range(3 if count == MAX_LANES else 20)]
        await tb.run(packets)
        if kind == "large":
            waits = {after[0] - before[0] - 1 for before, after in itertools.pairwise(tb.produced)}
            assert waits == {0}, f"idle cycles at the output: {sorted(waits)}"
        else:
            lost = set(tb.lost_at_input(packets))
            assert lost == {PAUSE}, f"idle cycles at the input: {sorted(lost)}"


@TB.test()
async def latency(tb):
    """From the last input beat to the first output beat, with nothing else inside."""
    for count in (1, 8, 9, 64, 362, MAX_LANES):
        for kind in ("zeros", "large", "edges"):
            await tb.run([Packet(KINDS[kind](count, random))])
            cycles = tb.latency()
            tb.log.info("%d lanes of %s: %d cycles", count, kind, cycles)
            assert cycles == LATENCY, f"{count} lanes of {kind}: {cycles} cycles"


@TB.test()
async def reset_in_the_middle(tb):
    """Check that what is inside at reset never comes out, and that what follows is right."""
    await tb.source.send(AxiStreamFrame(kinds(MAX_LANES).data))
    await tb.source.send(AxiStreamFrame(kinds(200).data))
    await ClockCycles(tb.dut.aclk, 330 + Top.RESET)
    assert tb.produced
    await tb.reset(8, 60)
    assert tb.sink.empty()
    await tb.run([kinds(some_length(random)) for _ in range(10)])
