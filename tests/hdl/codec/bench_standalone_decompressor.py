# SPDX-License-Identifier: BSD-2-Clause
"""cocotb bench of StandaloneDecompressor: blocks in, bursts out, against the golden model."""

import itertools
import random
from collections.abc import Iterable, Iterator

import cocotb
import numpy as np
from chosen_beat import BEAT
from cocotb.triggers import ClockCycles, RisingEdge
from cocotbext.axi import AxiStreamFrame
from decompressor_blocks import (
    ALL_PARAMETERS,
    BEAT_BYTES,
    CODEC,
    MALFORMATIONS,
    WIDTH,
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
from inceptionn.sim.golden.values import KINDS
from inceptionn.sim.testbench import TestBench
from inceptionn.wire import (
    CODES,
    GROUP_LANES,
    MAX_LANES,
    RAW_CODE,
    TAG_WORD_BYTES,
    Parameters,
    Tag,
    parameters,
)

DEFAULT = parameters(10, "bounded")
LATENCY = codec_of(CODEC).decompressor.latency_of(BEAT)
"""Cycles from a block's first beat to its first burst, where the first tag word's data are there as well."""
DATA_LATENCY = LATENCY - 2
"""The same from the first beat with data, after two beats of tags and more."""


def pauses(probability: float, longest: int) -> Iterator[int]:
    """For ``set_pause_generator``: pauses of 1 to ``longest`` cycles between runs of the same length."""
    while True:
        for _ in range(random.randint(1, longest)):
            yield random.random() < probability
        yield from itertools.repeat(1 if random.random() < probability else 0, random.randint(1, longest))


class TB(TestBench):
    """A source of blocks with their bases, a sink of bursts, and the cycles of both."""

    def __init__(self, dut):
        super().__init__(dut)
        self.cycle = 0
        self.accepted: list[int] = []
        """Cycle of every input beat."""
        self.produced: list[tuple[int, bool]] = []
        """Cycle of every output beat, and whether it was a packet's last."""
        self._bases: list[int] = []
        self._flags: list[bool] = []
        dut.cfg_b.value = 0
        self.source, self.sink = self.stream_source(), self.stream_sink()

    async def start(self) -> None:
        await self.reset(8, 4)
        cocotb.start_soon(self._watch())

    async def _watch(self) -> None:
        """Count cycles, record handshakes, and have ``cfg_b`` right on first beats only."""
        dut = self.dut
        while True:
            await RisingEdge(dut.aclk)
            self.cycle += 1
            if dut.s_axis_tvalid.value and dut.s_axis_tready.value:
                self.accepted.append(self.cycle)
                if not dut.s_axis_tlast.value:
                    dut.cfg_b.value = random.getrandbits(8)
                elif self._bases:
                    dut.cfg_b.value = self._bases.pop(0)
            if dut.m_axis_tvalid.value and dut.m_axis_tready.value:
                last = bool(dut.m_axis_tlast.value)
                self.produced.append((self.cycle, last))
                if last:
                    self._flags.append(bool(dut.m_axis_tuser.value))

    async def run(
        self, blocks: Iterable[Block], *, pause_source=None, pause_sink=None, cycles_per_beat=1
    ) -> None:
        """Send blocks back to back and check every answer; fail beyond a cycle limit."""
        blocks = list(blocks)
        self.accepted.clear()
        self.produced.clear()
        self._flags.clear()
        self._bases[:] = [block.base for block in blocks[1:]]
        self.dut.cfg_b.value = blocks[0].base
        await RisingEdge(self.dut.aclk)
        for end, pause in ((self.source, pause_source), (self.sink, pause_sink)):
            if pause is None:
                end.clear_pause_generator()
                end.pause = False
            else:
                end.set_pause_generator(pause)
        for block in blocks:
            count = [block.count] * BEAT_BYTES
            count += [random.getrandbits(16)] * max(0, len(block.data) - BEAT_BYTES)
            await self.source.send(AxiStreamFrame(block.data, tuser=count[: len(block.data)]))
        beats = sum(max(block.beats, block.bursts) for block in blocks)
        limit = self.cycle + 500 + 2 * cycles_per_beat * beats
        for index, block in enumerate(blocks):
            while self.sink.empty():
                await RisingEdge(self.dut.aclk)
                assert self.cycle < limit, (
                    f"only {index} of {len(blocks)} blocks out after {self.cycle} cycles"
                )
            frame = self.sink.recv_nowait()
            block.check(bytes(frame.tdata), self._flags.pop(0))
        await ClockCycles(self.dut.aclk, 40)
        assert self.sink.empty()
        assert self.sink.idle()
        assert len(self.produced) == sum(block.bursts for block in blocks)

    def rate(self, blocks: list[Block], warm_up: int) -> float:
        """Bursts per cycle from the end of block ``warm_up`` to the end of the last one."""
        ends = [cycle for cycle, last in self.produced if last]
        return sum(block.bursts for block in blocks[warm_up + 1 :]) / (ends[-1] - ends[warm_up])


@TB.test()
async def nothing_comes_from_nothing(tb):
    await ClockCycles(tb.dut.aclk, 100)
    assert tb.dut.s_axis_tready.value == 1
    assert not tb.produced


@TB.test()
async def every_setting(tb):
    """All bounds and modes, all kinds of values, bases changing from block to block."""
    await tb.run(
        good(random.randint(1, 100), params, kind, random) for params in ALL_PARAMETERS for kind in KINDS
    )


@TB.test()
async def every_size(tb):
    """Every code after every other one; or all 3^8 sizes of the first seven lanes' vectors that differ."""
    if CODEC == "planes":
        codes = [code for pair in itertools.product(range(CODES), repeat=2) for code in pair]
        await tb.run(
            of_codes(codes[at : at + 256], 8 * 256 - absent, any_base(DEFAULT.e0), random)
            for at in (0, 256)
            for absent in range(GROUP_LANES)
        )
        return
    words = list(itertools.product(range(4), repeat=4))
    random.shuffle(words)
    tags = np.array(
        [[*first, *second] for first, second in zip(words, reversed(words), strict=True)], np.uint8
    )
    await tb.run(
        [of_tags(tags.reshape(-1), DEFAULT, random), of_tags(tags[::-1].reshape(-1), DEFAULT, random)]
    )


@TB.test(skip=CODEC == "planes")
async def small_bases(tb):
    """Check that a vector of 16 bits is good with a base with which one of 8 bits is impossible."""
    blocks = []
    for base in range(33):
        words = [random.getrandbits(1) << 15 | random.getrandbits(random.randint(0, 15)) for _ in range(48)]
        tags, vectors = bytes([0xAA] * (len(words) // 4)), np.array(words, "<u2").tobytes()
        blocks.append(Block(tags + vectors, len(words), base, "16 bits"))
    await tb.run(blocks)


@TB.test()
@cocotb.parametrize(idle=[0.0, 0.3, 0.9], back_pressure=[0.0, 0.3, 0.9])
async def every_length(tb, idle, back_pressure):
    counts = [*range(1, 65), *range(360, 371), 2048, 2250, *range(2297, MAX_LANES + 1)]
    if idle or back_pressure:
        counts = [
            *random.sample(range(1, 65), 24),
            *random.sample(range(120, 371), 6),
            random.choice(counts[75:]),
        ]
    random.shuffle(counts)
    await tb.run(
        [good(count, DEFAULT, random.choice(list(KINDS)), random) for count in counts],
        pause_source=pauses(idle, 8) if idle else None,
        pause_sink=pauses(back_pressure, 40) if back_pressure else None,
        cycles_per_beat=40,
    )


@TB.test()
@cocotb.parametrize(kind=list(MALFORMATIONS), paused=[False, True])
async def malformed_between_good(tb, kind, paused):
    blocks = []
    for _ in range(10):
        for spoilt in (False, True, random.random() < 0.5):
            block = good(
                random.choice([9, 100, lengths(random)]), DEFAULT, random.choice(list(KINDS)), random
            )
            blocks.append(MALFORMATIONS[kind](block, random) if spoilt else block)
    await tb.run(
        blocks,
        pause_source=pauses(0.3, 4) if paused else None,
        pause_sink=pauses(0.5, 30) if paused else None,
        cycles_per_beat=40,
    )


@TB.test()
async def output_stalled_for_long(tb):
    """Every buffer fills up, left-over bytes included, and nothing is lost."""
    stall = itertools.chain(itertools.repeat(1, 3000), itertools.repeat(0))
    await tb.run(mixture(60, None, 0.5, random), pause_sink=stall, cycles_per_beat=20)


@TB.test()
async def mixed(tb):
    for probability in (0.0, 0.5):
        await tb.run(
            mixture(40, None, 0.4, random),
            pause_source=pauses(probability, 5) if probability else None,
            pause_sink=pauses(probability, 5) if probability else None,
            cycles_per_beat=20,
        )


def barely(count: int, params: Parameters) -> Block:
    """Just small enough to be sent compressed, the ratio next to 1."""
    if CODEC == "planes":
        codes = [RAW_CODE] * -(-count // GROUP_LANES)
        codes[5::24] = [0] * len(codes[5::24])
        return of_codes(codes, count, any_base(params.e0), random)
    saved = 2 * -(-count // GROUP_LANES) + 12
    tags = np.full(count, Tag.RAW, np.uint8)
    tags[:: max(1, count // (saved // 2 + 1))][: saved // 2] = Tag.BITS16
    return of_tags(tags, params, random)


@TB.test()
@cocotb.parametrize(count=[362, 2250])
async def throughput(tb, count):
    """One burst per cycle at every ratio and code, blocks back to back."""
    number = 6 + 4000 // count
    mixes = [(1,), (0, 1), (0, 0, 0, 1), (1, 2), (2,), (2, 3), (3, 3, 1), (0, 3)]
    if CODEC == "planes":
        mixes = [(code,) for code in range(1, RAW_CODE)] + [(0, RAW_CODE), (RAW_CODE, 1)]
    for mix in [None, (0,), *mixes]:
        if mix is None:
            blocks = [barely(count, DEFAULT)] * number
        elif CODEC == "planes":
            groups = -(-count // GROUP_LANES)
            blocks = [
                of_codes(random.choices(mix, k=groups), count, any_base(DEFAULT.e0), random)
                for _ in range(number)
            ]
        else:
            blocks = [
                of_tags(np.array(random.choices(mix, k=count), np.uint8), DEFAULT, random)
                for _ in range(number)
            ]
        await tb.run(blocks)
        ratio = 4 * count / np.mean([len(block.data) for block in blocks])
        rate = tb.rate(blocks, 1)
        tb.log.info("%d lanes, ratio %.2f: %.4f bursts per cycle", count, ratio, rate)
        assert rate >= 0.97, f"{rate:.4f} bursts per cycle at a ratio of {ratio:.2f}"


@TB.test()
async def throughput_of_small_blocks(tb):
    blocks = [good(2 * WIDTH, DEFAULT, "gradients", random) for _ in range(100)]
    await tb.run(blocks)
    lost = 2 / tb.rate(blocks, 1) - 2
    tb.log.info("blocks of two bursts: %.2f cycles lost", lost)
    assert lost <= 2


@TB.test()
async def latency(tb):
    for count in (8, 16, 362, 2250):
        plane_beats = -(-count // WORD_LANES) * TAG_WORD_BYTES // BEAT_BYTES
        await tb.run([good(count, DEFAULT, "large", random)])
        first, _ = tb.produced[0]
        from_block, from_data = first - tb.accepted[0], first - tb.accepted[plane_beats]
        tb.log.info("%d lanes: %d cycles from the block, %d from its data", count, from_block, from_data)
        assert from_block <= LATENCY + max(0, plane_beats - 7)
        assert plane_beats < 2 or from_data <= DATA_LATENCY


@TB.test()
async def reset_in_the_middle(tb):
    """Check that what is inside at reset never comes out, and that what follows is right."""
    block = good(2250, DEFAULT, "large", random)
    tb.dut.cfg_b.value = block.base
    await tb.source.send(AxiStreamFrame(block.data, tuser=block.count))
    await ClockCycles(tb.dut.aclk, 120)
    await tb.reset(8, 60)
    assert tb.sink.empty()
    await tb.run(mixture(10, None, 0.3, random), cycles_per_beat=4)
