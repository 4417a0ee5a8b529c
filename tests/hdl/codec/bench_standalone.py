# SPDX-License-Identifier: BSD-2-Clause
"""cocotb bench of StandaloneCompressor and StandaloneDecompressor, each against the golden model.

Parameters ``part``, the name in the catalogue, ``lanes``, ``bf16`` and ``codec``; ``short`` is a smaller
sweep, for a slower simulator. Lanes of fp32 become blocks, and blocks lanes.
"""

import itertools
import random
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import cocotb
import numpy as np
from chosen_width import WIDTH
from cocotb.triggers import ClockCycles, RisingEdge
from cocotbext.axi import AxiStreamFrame
from compressor_blocks import (
    ALL_PARAMETERS,
    BEAT_BYTES,
    CODEC,
    DEFAULT,
    LANES,
    LENGTHS,
    any_parameters,
    block_of,
    some_lanes,
    some_length,
)
from decompressor_blocks import (
    MALFORMATIONS,
    WORD_LANES,
    Block,
    any_base,
    good,
    lengths,
    mixture,
    of_codes,
    of_tags,
)

from inceptionn.hdl.codec.codecs import codec_of
from inceptionn.hdl.parts.top import Top
from inceptionn.sim.golden.codec import Bits
from inceptionn.sim.golden.values import KINDS
from inceptionn.sim.runner import bench_parameters
from inceptionn.sim.testbench import TestBench
from inceptionn.wire import CODES, GROUP_LANES, MAX_LANES, RAW_CODE, TAG_WORD_BYTES, Parameters, Tag

COMPRESSES = bench_parameters()["part"].endswith("standalone_compressor")
SHORT = bench_parameters().get("short", False)
PAPER = CODEC == "paper"
COMPRESSED = {"paper": {8: 30, 16: 35}, "planes": {8: 28, 16: 33}}[CODEC][LANES]
"""Cycles from a packet's last beat to its block's first, where the output is idle."""
RESTORED = codec_of(CODEC).decompressor.latency_of(WIDTH)
"""Cycles from a block's first beat to its first burst, where the first tag word's data are there as well."""
PAUSE = {8: 1, 16: 0}[LANES]
"""Idle cycles that the compressor needs between packets."""
HOLD = 4
"""Cycles that codec parameters hold after a packet's last beat."""


@dataclass(frozen=True)
class Packet:
    """Lanes as they are sent to the compressor, and the numbers that they are compressed with."""

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
    def beats(self) -> int:
        """Beats that go in."""
        return -(-len(self.lanes) // LANES)

    @property
    def bursts(self) -> int:
        """Beats that must come out."""
        return -(-len(self.block) // BEAT_BYTES)

    def check(self, found: bytes, marked: bool) -> None:
        """Raise ``AssertionError`` unless this is the right answer to the packet."""
        expected, what = self.block, f"{len(self.lanes)} lanes with {self.params}"
        assert len(found) == len(expected), f"{what}: {len(found)} bytes, not {len(expected)}"
        assert found == expected, f"{what}: they differ"
        assert marked == (len(self.lanes) > MAX_LANES), f"{what}: marked is {marked}"


Item = Packet | Block


def item(count: int, params: Parameters = DEFAULT, kind: str | None = None) -> Item:
    """Return a packet or a good block of ``count`` lanes, of any kind of values unless it is given."""
    if not COMPRESSES:
        return good(count, params, kind or random.choice(list(KINDS)), random)
    return Packet(KINDS[kind](count, random) if kind else some_lanes(count, params, random), params)


def pauses(probability: float, longest: int) -> Iterator[bool] | None:
    """Yield runs of up to ``longest`` cycles, each of which pauses with this probability; None: never."""

    def runs() -> Iterator[bool]:
        while True:
            yield from itertools.repeat(random.random() < probability, random.randint(1, longest))

    return runs() if probability else None


def stalled(cycles: int) -> Iterator[bool]:
    return itertools.chain(itertools.repeat(True, cycles), itertools.repeat(False))


class TB(TestBench):
    """A source and a sink of packets and blocks, the settings of each, and the cycles of both."""

    def __init__(self, dut):
        super().__init__(dut)
        self.cycle = 0
        self.accepted: list[tuple[int, bool]] = []
        """Cycle of every input beat, and whether it was a packet's last."""
        self.produced: list[tuple[int, bool]] = []
        self.marks: deque[bool] = deque()
        """``tuser`` at every ``tlast``."""
        self._bases: deque[int] = deque()
        self.source, self.sink = self.stream_source(), self.stream_sink()
        self.set(DEFAULT) if COMPRESSES else self.set_base(0)

    def set(self, params: Parameters) -> None:
        """Apply codec parameters at once."""
        self.dut.cfg_e0.value, self.dut.cfg_t.value, self.dut.cfg_b.value = params.e0, params.t, params.b

    def set_base(self, base: int) -> None:
        self.dut.cfg_b.value = base

    async def start(self) -> None:
        await self.reset(8, 8)
        cocotb.start_soon(self._watch())

    async def _watch(self) -> None:
        """Count cycles, record handshakes, and hold the output to the rules of AXI4-Stream.

        The decompressor's ``cfg_b`` is right on first beats only.
        """
        dut, waiting = self.dut, None
        while True:
            await RisingEdge(dut.aclk)
            self.cycle += 1
            if not dut.aresetn.value:
                waiting = None
                continue
            if dut.s_axis_tvalid.value and dut.s_axis_tready.value:
                last = bool(dut.s_axis_tlast.value)
                self.accepted.append((self.cycle, last))
                if not COMPRESSES and (self._bases or not last):
                    self.set_base(self._bases.popleft() if last else random.getrandbits(8))
            beat = None
            if dut.m_axis_tvalid.value:
                beat = [int(getattr(dut, f"m_axis_{name}").value) for name in ("tdata", "tkeep", "tlast")]
                full = beat[1] == (1 << BEAT_BYTES) - 1
                assert full or (beat[2] and beat[1] & (beat[1] + 1) == 0), f"tkeep is {beat[1]:#x}"
                if beat[2] or COMPRESSES:
                    beat.append(int(dut.m_axis_tuser.value))
                    assert beat[2] or not beat[3], "a mark before the block's last beat"
            assert waiting is None or beat == waiting, "a beat changed or went before it was accepted"
            waiting = beat if not dut.m_axis_tready.value else None
            if beat is not None and waiting is None:
                self.produced.append((self.cycle, bool(beat[2])))
                self.marks.extend([bool(beat[-1])] * beat[2])

    def pause(self, idle: Iterable[bool] | None, back_pressure: Iterable[bool] | None) -> None:
        """Pause generators of source and sink; None: never."""
        for end, generator in ((self.source, idle), (self.sink, back_pressure)):
            if generator is None:
                end.clear_pause_generator()
                end.pause = False
            else:
                end.set_pause_generator(iter(generator))

    async def run(self, items: Iterable[Item], cycles_per_beat: int = 2) -> list[Item]:
        """Send items back to back and check every answer; fail beyond a cycle limit. Return the items."""
        items = list(items)
        for seen in (self.accepted, self.produced, self.marks):
            seen.clear()
        beats = sum(max(one.beats, one.bursts) for one in items)
        limit = self.cycle + 1000 + cycles_per_beat * (2 * beats + 20 * len(items))
        sender = cocotb.start_soon(self._send(items))
        for index, one in enumerate(items):
            while self.sink.empty():
                await RisingEdge(self.dut.aclk)
                assert self.cycle < limit, f"{index} of {len(items)} items out after {self.cycle} cycles"
            one.check(bytes(self.sink.recv_nowait().tdata), self.marks.popleft())
        await sender
        await ClockCycles(self.dut.aclk, 60)
        assert self.sink.empty()
        assert self.sink.idle()
        assert len(self.accepted) == sum(one.beats for one in items)
        assert len(self.produced) == sum(one.bursts for one in items)
        return items

    async def _send(self, items: list[Item]) -> None:
        """Send items; where parameters change, the compressor's source waits as it must."""
        if not COMPRESSES:
            self._bases = deque(one.base for one in items)
            self.set_base(self._bases.popleft())
            await RisingEdge(self.dut.aclk)
            for one in items:
                count = [one.count] * BEAT_BYTES  # later, it means nothing
                count += [random.getrandbits(16)] * max(0, len(one.data) - BEAT_BYTES)
                await self.source.send(AxiStreamFrame(one.data, tuser=count[: len(one.data)]))
            return
        setting = None
        for one in items:
            if one.params != setting:
                await self.source.wait()
                # The last beat moved at the edge before; the next can move at the one after HOLD more.
                await ClockCycles(self.dut.aclk, HOLD)
                self.set(setting := one.params)
            await self.source.send(AxiStreamFrame(one.data))


@TB.test()
async def nothing_comes_from_nothing(tb):
    await ClockCycles(tb.dut.aclk, 100)
    assert tb.dut.s_axis_tready.value == 1
    assert not tb.produced


@TB.test()
async def every_setting(tb):
    """All bounds and modes with all kinds of values, and other numbers; they change as soon as they may."""
    settings = [*ALL_PARAMETERS, *((any_parameters(random) for _ in range(20)) if COMPRESSES else ())]
    settings = random.sample(settings, 12 if SHORT else len(settings))
    kinds = (*KINDS, None)
    await tb.run(item(random.randint(1, 60), params, kind) for params in settings for kind in kinds)


@TB.test()
@cocotb.parametrize(idle=[0.0, 0.3, 0.9], back_pressure=[0.0, 0.3, 0.9])
async def every_length(tb, idle, back_pressure):
    counts = [*LENGTHS]
    if idle or back_pressure or SHORT:
        counts = [*random.sample(range(1, 65), 24), *random.sample(range(120, 371), 4)]
        counts += [random.choice(LENGTHS[75:])] if idle == back_pressure else []
    random.shuffle(counts)
    tb.pause(pauses(idle, 8), pauses(back_pressure, 40))
    await tb.run((item(count) for count in counts), cycles_per_beat=30)


@TB.test()
async def output_stalled_for_long(tb):
    """Everything inside fills up, left-over bytes included, the input stops, and nothing is lost."""
    runs = [mixture(60, None, 0.5, random)]
    if COMPRESSES:
        kinds = ("zeros", "large", "gradients")
        runs = [[item(count, kind=kind) for count in [1] * 150 + [362] * 20] for kind in kinds]
    for items in runs:
        tb.pause(None, stalled(1500 if COMPRESSES else 3000))
        await tb.run(items, cycles_per_beat=20)
        stop = max(after - before for (before, _), (after, _) in itertools.pairwise(tb.accepted))
        assert stop > 500, "the input did not have to wait for the output"


@TB.test()
async def latency(tb):
    """To the first output beat with nothing else inside: from a packet's last, or from a block's first."""
    for count, kind in itertools.product((1, 8, 16, 362, 2250, MAX_LANES), ("zeros", "large", "edges")):
        await tb.run([item(count, kind=kind)])
        first = tb.produced[0][0]
        if COMPRESSES:
            cycles = first - tb.accepted[-1][0]
            assert cycles == COMPRESSED, f"{count} lanes of {kind}: {cycles} cycles"
        elif kind == "large":
            table_beats = -(-count // WORD_LANES) * TAG_WORD_BYTES // BEAT_BYTES
            assert first - tb.accepted[0][0] <= RESTORED + max(0, table_beats - 7)
            # The same from the first beat with data, after two beats of tags and more.
            assert table_beats < 2 or first - tb.accepted[table_beats][0] <= RESTORED - 2


@TB.test()
@cocotb.parametrize(low=[1, 2, 16])
async def reset_in_the_middle(tb, low):
    """Check that what is inside at reset, short or long, never comes out, and that what follows is right."""
    for cycles in (330 if COMPRESSES else 120, *random.choices(range(1500), k=1 if SHORT else 6)):
        for one in (item(MAX_LANES, kind="large"), *(item(some_length(random)) for _ in range(20))):
            await tb.source.send(AxiStreamFrame(one.data, tuser=0 if COMPRESSES else one.count))
        await ClockCycles(tb.dut.aclk, cycles + Top.RESET)
        assert cycles < 330 or tb.produced
        await tb.reset(low, 0)
        produced = len(tb.produced)
        await ClockCycles(tb.dut.aclk, 60)
        assert tb.sink.empty()
        assert len(tb.produced) == produced
        await tb.run(
            [item(some_length(random)) for _ in range(10)] if COMPRESSES else mixture(10, None, 0.3, random)
        )


# Compression.


@TB.test(skip=not COMPRESSES)
@cocotb.parametrize(paused=[False, True])
async def overlong_packets_are_marked(tb, paused):
    """Packets of more than 2304 lanes, twice as many included, each with a good one after it."""
    if paused:
        tb.pause(pauses(0.3, 5), pauses(0.3, 20))
    counts = [MAX_LANES + 1, MAX_LANES + 8, MAX_LANES + 100, 2 * MAX_LANES, 2 * MAX_LANES + 3]
    for count in counts[:1] if SHORT else counts:
        await tb.run([item(count), item(some_length(random)), item(MAX_LANES)], cycles_per_beat=8)


@TB.test(skip=not COMPRESSES)
async def marks_keep_to_their_blocks(tb):
    """As many small blocks inside as fit, while an overlong packet's block waits among them."""
    for before in (0, 40):
        tb.pause(None, stalled(1500))
        await tb.run([item(1)] * before + [item(MAX_LANES + 1)] + [item(1)] * 200)


@TB.test(skip=not COMPRESSES)
@cocotb.parametrize(kind=list(KINDS))
async def one_beat_per_cycle(tb, kind):
    """In, but for the pause between packets; or out, where blocks of raw lanes are longer than packets."""
    for count in (16, 362, MAX_LANES):
        packets = await tb.run(item(count, kind=kind) for _ in range(3 if count == MAX_LANES else 20))
        waits = {after[0] - before[0] - 1 for before, after in itertools.pairwise(tb.produced)}
        ends = [cycle for cycle, last in tb.accepted if last]
        lost = {end - begin - packets[0].beats for begin, end in itertools.pairwise(ends)}
        if kind == "large":
            assert waits == {0}, f"idle cycles at the output: {sorted(waits)}"
        elif kind in ("gradients", "zeros"):
            assert lost == {PAUSE}, f"idle cycles at the input: {sorted(lost)}"


# Decompression.


@TB.test(skip=COMPRESSES)
async def every_size(tb):
    """Every code after every other one; or all 3^8 sizes of the first seven lanes' vectors that differ."""
    if PAPER:
        words = random.sample([*itertools.product(range(4), repeat=4)], 256)
        tags = np.array([first + second for first, second in zip(words, words[::-1], strict=True)], np.uint8)
        await tb.run(of_tags(order.reshape(-1), DEFAULT, random) for order in (tags, tags[::-1]))
        return
    codes = [code for pair in itertools.product(range(CODES), repeat=2) for code in pair]
    await tb.run(
        of_codes(codes[at : at + 256], 8 * 256 - absent, any_base(DEFAULT.e0), random)
        for at in (0, 256)
        for absent in range(GROUP_LANES)
    )


@TB.test(skip=COMPRESSES or not PAPER)
async def small_bases(tb):
    """Check that a vector of 16 bits is good with a base with which one of 8 bits is impossible."""
    blocks = []
    for base in range(33):
        words = [random.getrandbits(1) << 15 | random.getrandbits(random.randint(0, 15)) for _ in range(48)]
        tags, vectors = bytes([0xAA] * (len(words) // 4)), np.array(words, "<u2").tobytes()
        blocks.append(Block(tags + vectors, len(words), base, "16 bits"))
    await tb.run(blocks)


@TB.test(skip=COMPRESSES)
@cocotb.parametrize(kind=list(MALFORMATIONS), paused=[False, True])
async def malformed_between_good(tb, kind, paused):
    blocks = []
    for spoilt in (False, True, random.random() < 0.5) * 10:
        block = item(random.choice([9, 100, lengths(random)]))
        blocks.append(MALFORMATIONS[kind](block, random) if spoilt else block)
    if paused:
        tb.pause(pauses(0.3, 4), pauses(0.5, 30))
    await tb.run(blocks, cycles_per_beat=40)


def barely(count: int) -> Block:
    """Just small enough to be sent compressed, the ratio next to 1."""
    if PAPER:
        saved = 2 * -(-count // GROUP_LANES) + 12
        tags = np.full(count, Tag.RAW, np.uint8)
        tags[:: max(1, count // (saved // 2 + 1))][: saved // 2] = Tag.BITS16
        return of_tags(tags, DEFAULT, random)
    codes = [RAW_CODE] * -(-count // GROUP_LANES)
    codes[5::24] = [0] * len(codes[5::24])
    return of_codes(codes, count, any_base(DEFAULT.e0), random)


def of_mix(count: int, mix: tuple[int, ...]) -> Block:
    """Return a block with these tags or codes at random."""
    if PAPER:
        return of_tags(np.array(random.choices(mix, k=count), np.uint8), DEFAULT, random)
    codes = random.choices(mix, k=-(-count // GROUP_LANES))
    return of_codes(codes, count, any_base(DEFAULT.e0), random)


def rate(tb: TB, blocks: list[Block]) -> float:
    """Bursts per cycle from the end of the second block to the end of the last one."""
    ends = [cycle for cycle, last in tb.produced if last]
    return sum(block.bursts for block in blocks[2:]) / (ends[-1] - ends[1])


@TB.test(skip=COMPRESSES)
@cocotb.parametrize(count=[362, 2250])
async def throughput(tb, count):
    """One burst per cycle at every ratio and code, blocks back to back."""
    number = 6 + 4000 // count
    mixes = [(1,), (0, 1), (0, 0, 0, 1), (1, 2), (2,), (2, 3), (3, 3, 1), (0, 3)]
    if not PAPER:
        mixes = [(code,) for code in range(1, RAW_CODE)] + [(0, RAW_CODE), (RAW_CODE, 1)]
    for mix in [None, (0,), *mixes]:
        blocks = [barely(count)] * number if mix is None else [of_mix(count, mix) for _ in range(number)]
        await tb.run(blocks)
        found = rate(tb, blocks)
        assert found >= 0.97, f"{found:.4f} bursts per cycle with {mix}"


@TB.test(skip=COMPRESSES)
async def throughput_of_small_blocks(tb):
    blocks = await tb.run(item(2 * LANES, kind="gradients") for _ in range(100))
    lost = 2 / rate(tb, blocks) - 2
    assert lost <= 2, f"blocks of two bursts: {lost:.2f} cycles lost"
