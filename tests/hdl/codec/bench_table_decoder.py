# SPDX-License-Identifier: BSD-2-Clause
"""cocotb bench of both codecs' decoders of a table, TagDecoder and CodeDecoder: groups with their places."""

from __future__ import annotations

import random
from dataclasses import dataclass

import cocotb
from chosen_beat import BEAT
from cocotb.triggers import FallingEdge

from inceptionn.hdl.codec.paper.tag_decoder import TagDecoder
from inceptionn.hdl.codec.planes.code_decoder import CodeDecoder
from inceptionn.hdl.codec.planes.plane_unit import CODE_BITS
from inceptionn.hdl.codec.table_decoder import block_layout, group_layout, position_bits, table_beat
from inceptionn.sim.runner import bench_parameters
from inceptionn.sim.testbench import TestBench
from inceptionn.wire import (
    BF16_LANES,
    CODE_WORD_GROUPS,
    FP32_LANES,
    GROUP_LANES,
    LANE_BYTES,
    MAX_LANES,
    RAW_CODE,
    TAG_BYTES,
)

WIDTH = BEAT.lanes
"""Lanes of a word of marks: tags or codes of one group, or two."""
PLANES = bench_parameters().get("codec") == "planes"
DECODER = CodeDecoder if PLANES else TagDecoder
WORDS = DECODER.WORDS
BEAT_BITS = 8 * LANE_BYTES * WIDTH
MARK_BITS = BEAT_BITS // WORDS
ONE_GROUP = (1 << MARK_BITS * GROUP_LANES // WIDTH) - 1
"""The marks of a word's first group."""
BLOCK_LAYOUT, GROUP_LAYOUT = block_layout(BEAT), group_layout(BEAT, DECODER.MARKS, MARK_BITS + BEAT.bf16)
BEAT_LAYOUT = table_beat(BEAT)
POSITIONS = 1 << position_bits(BEAT)
CYCLE_LIMIT = 100_000


def size_of(word: int, bf16: bool) -> int:
    """Bytes of the data that a word of marks announces, with ``bf16`` of bf16 lanes."""
    if PLANES:
        sizes = (BF16_LANES if bf16 else FP32_LANES).code_bytes
        return sum(sizes[word >> at & RAW_CODE] for at in range(0, MARK_BITS, CODE_BITS))
    return sum(TAG_BYTES[word >> at & 3] for at in range(0, MARK_BITS, 2))


@dataclass
class Table:
    """A block's words of marks, what follows them in their last beat, and how many beats arrive."""

    words: list[int]
    rest: int
    lanes: int
    base: int
    origin: int
    unusable: bool
    beats: int

    @classmethod
    def random(cls, groups: int, cut: bool = False) -> Table:
        beats = -(-groups // WORDS)
        made = cls(
            words=[
                random.choice(
                    [0, (1 << MARK_BITS) - 1, random.getrandbits(MARK_BITS), 1 << random.randrange(MARK_BITS)]
                )
                for _ in range(groups)
            ],
            rest=random.getrandbits(BEAT_BITS),
            lanes=random.randint(1, WIDTH),
            base=random.getrandbits(8),
            origin=random.randrange(POSITIONS),
            unusable=random.random() < 0.1,
            beats=random.randint(1, beats - 1) if cut and beats > 1 else beats,
        )
        if PLANES and random.random() < 0.7:  # what would be a fault, at random
            made.rest = 0
            made.words[-1] &= ONE_GROUP if made.alone else -1
        return made

    @property
    def alone(self) -> bool:
        """The last word has the marks of one group instead of two."""
        return self.lanes <= WIDTH - GROUP_LANES

    @property
    def surplus(self) -> bool:
        """The table says more than its lanes allow: tags of absent lanes, or codes after the last group."""
        last = self.words[-1]
        if not PLANES:
            return bool((last & (ONE_GROUP if self.alone else -1)) >> 2 * self.lanes)
        after = -len(self.words) * MARK_BITS % (CODE_BITS * CODE_WORD_GROUPS)
        return bool(self.rest & (1 << after) - 1 or (self.alone and last > ONE_GROUP))

    def sent(self) -> list[tuple[int, int, bool]]:
        """Return data, block, and whether the block ends, of every beat.

        A block may go on after its table.
        """
        block = {
            "more_groups": len(self.words) - 1,
            "more_lanes": self.lanes - 1,
            "base": self.base,
            "origin": self.origin,
            "unusable": self.unusable,
        }
        beats = []
        for beat in range(self.beats):
            words = [*self.words[beat * WORDS : (beat + 1) * WORDS], self.rest]
            data = sum(word << MARK_BITS * index for index, word in enumerate(words)) % (1 << BEAT_BITS)
            cut = self.beats < -(-len(self.words) // WORDS)
            ends = beat == self.beats - 1 and (cut or random.random() < 0.5)
            meaning = (
                BLOCK_LAYOUT.const(block).as_bits() if beat == 0 else random.getrandbits(BLOCK_LAYOUT.size)
            )
            beats.append((data, meaning, ends))
        return beats

    def expected(self) -> list[dict[str, int]]:
        """Fields of every group that are not arbitrary."""
        groups = []
        position = self.origin
        bf16 = BEAT.bf16 and self.base >= BF16_LANES.shim_offset
        for index, word in enumerate(self.words):
            last = index == len(self.words) - 1
            marks = word & ONE_GROUP if last and self.alone else word
            end = (position + size_of(marks, bf16)) % POSITIONS
            group = {
                DECODER.MARKS: word | bf16 << MARK_BITS if PLANES else marks,
                "start": position,
                "end": end,
                "last": last,
                "more_lanes": self.lanes - 1,
                "base": self.base,
                "fault": self.unusable or (last and self.surplus),
            }
            if index >= self.beats * WORDS:
                group = {key: group[key] for key in ("last", "more_lanes", "base")}
            groups.append(group)
            position = end
        return groups


class TB(TestBench):
    """Drives tables and takes groups, each with a probability per cycle."""

    async def reset(self) -> None:
        self.dut.beats_valid.value = self.dut.groups_ready.value = 0
        await super().reset()
        await FallingEdge(self.dut.aclk)

    async def run(self, tables: list[Table], write: float, take: float) -> tuple[int, int]:
        """Check every group; return the cycles from first beat to first group, and to the last."""
        dut = self.dut
        beats = [beat for table in tables for beat in table.sent()]
        groups = [group for table in tables for group in table.expected()]
        held = None
        first_in = first_out = None
        for cycle in range(CYCLE_LIMIT):
            if not groups:
                dut.beats_valid.value = 0
                return first_out - first_in, cycle - first_in
            # Inputs change while the clock is low; outputs are read just before it rises.
            send = bool(beats) and int(dut.stored.value) < DECODER.DEPTH - 4 and random.random() < write
            dut.beats_valid.value = send
            data, block, ends = (
                beats.pop(0) if send else (random.getrandbits(BEAT_BITS), 0, random.getrandbits(1))
            )
            dut.beats_payload.value = BEAT_LAYOUT.const(
                {"data": data, "block": BLOCK_LAYOUT.from_bits(block), "ends": ends}
            ).as_bits()
            if send and first_in is None:
                first_in = cycle
            ready = random.random() < take
            dut.groups_ready.value = ready
            if dut.groups_valid.value:
                word = int(dut.groups_payload.value)
                assert held in (None, word), "a group changed while it waited"
                held = None if ready else word
                if ready:
                    first_out = cycle if first_out is None else first_out
                    found = GROUP_LAYOUT.from_bits(word)
                    for key, value in groups.pop(0).items():
                        assert found[key] == value, f"{key} is {found[key]}, not {value}"
            else:
                assert held is None, "a group was withdrawn"
            await FallingEdge(dut.aclk)
        raise AssertionError(f"{len(groups)} groups still outstanding after {CYCLE_LIMIT} cycles")


@TB.test()
@cocotb.parametrize(write=[1.0, 0.3], take=[1.0, 0.3])
async def tables(tb, write, take):
    counts = [*range(1, 40), *random.choices(range(1, MAX_LANES // WIDTH + 1), k=10), 48, MAX_LANES // WIDTH]
    random.shuffle(counts)
    await tb.run([Table.random(count) for count in counts], write, take)
    tb.dut.groups_ready.value = 1
    for _ in range(40):
        await FallingEdge(tb.dut.aclk)
        assert not tb.dut.groups_valid.value
    assert tb.dut.stored.value == 0, "beats are stored after the last group"


@TB.test()
@cocotb.parametrize(write=[1.0, 0.3])
async def tables_cut_short(tb, write):
    """Check that the announced number of groups comes out, and that the next block is right."""
    await tb.run(
        [Table.random(random.randint(1, 100), cut=random.random() < 0.5) for _ in range(60)], write, 0.8
    )


@cocotb.test()
async def one_group_per_cycle(dut):
    tb = TB(dut)
    for counts in ([1] * 100, [16] * 20, [46] * 20, [MAX_LANES // WIDTH] * 3):
        await tb.reset()
        latency, cycles = await tb.run([Table.random(count) for count in counts], 1.0, 1.0)
        tb.log.info("%d tables of %d words: %d cycles, latency %d", len(counts), counts[0], cycles, latency)
        assert latency == DECODER.latency_of(BEAT)
        assert cycles == latency + sum(counts)
