# SPDX-License-Identifier: BSD-2-Clause
"""Blocks for the decompressor, good and malformed, and what must come out of each."""

import random
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from chosen_width import WIDTH
from compressor_blocks import BEAT_BYTES, CODEC, LANES, TYPES

from inceptionn.sim.golden import codec, planes
from inceptionn.sim.golden.values import KINDS, Bits
from inceptionn.wire import (
    BF16_LANES,
    BURST_BYTES,
    CODE_WORD_GROUPS,
    FP32_LANES,
    GROUP_LANES,
    LANE_BYTES,
    MAX_K,
    MAX_LANES,
    MODES,
    RAW_CODE,
    RAW_EXPONENT,
    TAG_WORD_BYTES,
    LaneType,
    Parameters,
    parameters,
)

WORD_LANES = {"paper": GROUP_LANES, "planes": CODE_WORD_GROUPS * GROUP_LANES}[CODEC]
"""Lanes of a word of the table. A count of lanes is one of words that hold an fp32 lane or two bf16 lanes."""
ALL_PARAMETERS = tuple(parameters(k, mode) for k in range(1, MAX_K + 1) for mode in MODES)


@dataclass(frozen=True)
class Block:
    """A block as it is sent: bytes, announced lane count, base; and what was done to it."""

    data: bytes
    count: int
    base: int
    kind: str

    @property
    def usable(self) -> bool:
        return 1 <= self.count <= MAX_LANES

    @property
    def bursts(self) -> int:
        """Beats that must come out."""
        return -(-self.count // LANES) if self.usable else 1

    @property
    def beats(self) -> int:
        """Beats that go in."""
        return -(-len(self.data) // BEAT_BYTES)

    def check(self, data: bytes, malformed: bool, burst_bytes: int = BEAT_BYTES) -> None:
        """Raise ``AssertionError`` unless this is the right answer to the block.

        Before the first fault's group the lanes must be right, too; after it they are unspecified.
        """
        name = f"{self.kind} block of {self.count} lanes, {len(self.data)} bytes, base {self.base}"
        if not self.usable:
            assert malformed, f"{name}: not marked malformed"
            assert len(data) == burst_bytes, f"{name}: {len(data)} bytes came out"
            return
        expected, fault = self._expected()
        assert malformed == (fault is not None), f"{name}: malformed is {malformed}, but {fault}"
        assert len(data) == self.count * LANE_BYTES, f"{name}: {len(data)} bytes came out"
        good = self.count if fault is None else min(self.count, fault.group * GROUP_LANES)
        wrong = np.flatnonzero(np.frombuffer(data, "<u4")[:good] != expected[:good])
        assert not len(wrong), f"{name}: {len(wrong)} of {good} lanes are wrong, the first at {wrong[0]}"

    def _expected(self) -> tuple[Bits, codec.Fault | None]:
        if CODEC == "paper":
            lanes, _, fault = codec.examine_block(self.data, self.count, self.base)
            return lanes, fault
        kind = type_of(self.base)
        number, e0 = self.count * LANE_BYTES // kind.bytes, self.base - kind.shim_offset
        words, _, fault = planes.examine_block(self.data, number, e0, kind=kind)
        return words.view("<u4"), fault


def type_of(base: int) -> LaneType:
    """Return the type of a block's lanes."""
    return BF16_LANES if WIDTH.bf16 and base >= BF16_LANES.shim_offset else FP32_LANES


def any_base(e0: int) -> int:
    """Return the base of a block of any type."""
    return e0 + random.choice(TYPES).shim_offset


def good(count: int, params: Parameters, values: str, source: random.Random) -> Block:
    """Return the compressor's block for ``count`` values of a kind of ``values.KINDS``."""
    if CODEC == "planes":
        kind = source.choice(TYPES)
        each = LANE_BYTES // kind.bytes
        e0, lanes = params.e0, KINDS[values](each * count, source)
        if source.getrandbits(1):  # groups of every width
            limits = [source.randint(e0 - 1, e0 + RAW_EXPONENT) for _ in range(0, count, GROUP_LANES)]
            lanes = np.array(
                [source.randint(e0 - 2, limits[i // kind.group_lanes]) << 23 | source.getrandbits(23)
                 for i in range(len(lanes))], np.uint32,
            ) | np.array([source.getrandbits(1) << 31 for _ in lanes], np.uint32)  # fmt: skip
        words = (lanes >> np.uint32(8 * (LANE_BYTES - kind.bytes))).astype(f"<u{kind.bytes}")
        block = planes.pack_block(planes.compress_lanes(words, e0, kind), kind)
        return Block(block, count, e0 + kind.shim_offset, values)
    tags, vectors = codec.compress_lanes(KINDS[values](count, source), params)
    return Block(codec.pack_block(tags, vectors), count, params.b, values)


def of_tags(tags: Bits, params: Parameters, source: random.Random) -> Block:
    """Return a good block with these tags, with vectors drawn from the compressor's own for them."""
    exponents = {0: (1, 1), 1: (params.e0, params.t - 1), 2: (params.t, 126), 3: (127, 254)}
    lanes = [source.randint(*exponents[int(tag)]) << 23 | source.getrandbits(23) for tag in tags]
    found, vectors = codec.compress_lanes(np.array(lanes, np.uint32), params)
    assert (found == tags).all()
    return Block(codec.pack_block(found, vectors), len(tags), params.b, "of tags")


def _table_bytes(block: Block) -> int:
    return -(-block.count // WORD_LANES) * TAG_WORD_BYTES


def cut_in_table(block: Block, source: random.Random) -> Block:
    """Cut the block inside its tag table."""
    end = source.randrange(1, _table_bytes(block))
    return Block(block.data[:end], block.count, block.base, "cut in table")


def cut_zeros(block: Block, source: random.Random) -> Block:
    """All lanes zero, cut after whole beats of the tag table: only its length tells."""
    lanes = BEAT_BYTES // TAG_WORD_BYTES * WORD_LANES  # whose tags or codes fill a beat
    beats = source.randint(1, (MAX_LANES - 1) // lanes)
    count = source.randint(beats * lanes + 1, MAX_LANES)
    return Block(bytes(beats * BEAT_BYTES), count, block.base, "cut zeros")


def cut_in_data(block: Block, source: random.Random) -> Block:
    """Cut off data of the block, from one byte to all."""
    missing = min(source.choice([1, 2, 31, 32, 33, 10_000]), len(block.data) - _table_bytes(block))
    return Block(block.data[: len(block.data) - missing], block.count, block.base, "cut in data")


def left_over(block: Block, source: random.Random) -> Block:
    """Bytes are left over, a byte or many times what the decompressor can hold."""
    extra = source.randbytes(source.choice([1, 31, 32, 33, 500, 3000, 8192, 16384, 40_000]))
    return Block(block.data + extra, block.count, block.base, "left over")


def of_codes(codes: list[int], count: int, base: int, source: random.Random) -> Block:
    """Return a good block of the codec planes with these codes, any bits in its data, absent lanes zero."""
    table = [*codes, *[0] * (-len(codes) % CODE_WORD_GROUPS)]
    kind = type_of(base)
    data = bytearray(b"".join(source.randbytes(kind.code_bytes[code]) for code in codes))
    if used := count % GROUP_LANES:
        start = len(data) - kind.code_bytes[codes[-1]]
        mask = (1 << used * LANE_BYTES // kind.bytes) - 1  # of a plane
        for at in range(start, len(data)):
            raw = codes[-1] == RAW_CODE
            byte = (at - start) % (kind.group_lanes // 8)
            data[at] &= 255 * (at - start < used * LANE_BYTES) if raw else mask >> 8 * byte & 255
    head = bytes(low | high << 4 for low, high in zip(table[::2], table[1::2], strict=True))
    return Block(head + bytes(data), count, base, "of codes")


def rest_code(block: Block, source: random.Random) -> Block:
    """Make a code after the last group nonzero, with data for it or without."""
    groups = -(-block.count // GROUP_LANES)
    if groups % CODE_WORD_GROUPS == 0:
        e0 = block.base - type_of(block.base).shim_offset
        return rest_code(good(block.count % 2000 + 1, Parameters(e0, 0, 0), "edges", source), source)
    place = source.randrange(groups, -(-groups // CODE_WORD_GROUPS) * CODE_WORD_GROUPS)
    code = source.randrange(1, 16)
    table = bytearray(block.data[: _table_bytes(block)])
    table[place // 2] |= code << 4 * (place % 2)
    extra = source.choice([b"", bytes(type_of(block.base).code_bytes[code])])
    return Block(bytes(table) + block.data[len(table) :] + extra, block.count, block.base, "rest code")


def absent_lane(block: Block, source: random.Random) -> Block:
    """Make a lane that the block does not have nonzero: set one bit of its data."""
    count = block.count if block.count % GROUP_LANES else block.count - 1
    code = source.choice([1, 3, 13, 14, RAW_CODE])
    codes = [source.choice([0, 2, 5, RAW_CODE]) for _ in range(0, count - GROUP_LANES, GROUP_LANES)]
    made = of_codes([*codes[: (count - 1) // GROUP_LANES], code], count, block.base, source)
    data = bytearray(made.data)
    used, kind = count % GROUP_LANES, type_of(block.base)
    if code == RAW_CODE:
        at, bit = source.randrange(-BURST_BYTES + LANE_BYTES * used, 0), source.randrange(8)
    else:
        lane = source.randrange(used * LANE_BYTES // kind.bytes, kind.group_lanes)
        plane = kind.group_lanes // 8  # bytes
        at = -plane * source.randint(1, kind.code_bytes[code] // plane) + lane // 8
        bit = lane % 8
    data[at] |= 1 << bit
    return Block(bytes(data), count, block.base, "absent lane")


def impossible(block: Block, source: random.Random) -> Block:
    """Give the block a base so small that 8-bit vectors' exponents may fall below 1."""
    return Block(block.data, block.count, source.randrange(0, 9), "impossible")


def absent_tag(block: Block, source: random.Random) -> Block:
    """Tag an absent lane of the last group, and add its vector, so that only the tag is wrong."""
    if block.count % GROUP_LANES == 0:
        return absent_tag(Block(block.data, block.count - 1, block.base, block.kind), source)
    table = bytearray(block.data[: _table_bytes(block)])
    lane = source.randrange(block.count % GROUP_LANES, GROUP_LANES)
    table[-2 + lane // 4] = table[-2 + lane // 4] & ~(3 << 2 * (lane % 4)) | 1 << 2 * (lane % 4)
    return Block(bytes(table) + block.data[len(table) :] + b"\x40", block.count, block.base, "absent tag")


def wrong_count(block: Block, source: random.Random) -> Block:
    """Another lane count than the block was made for, in range or not."""
    count = source.choice([0, MAX_LANES + 1, 4096, 0xFFFF, source.randint(1, MAX_LANES)])
    return Block(block.data, count, block.base, "wrong count")


def noise(block: Block, source: random.Random) -> Block:
    """Random bytes."""
    data = source.randbytes(source.choice([1, 40, 3000, 12_000]))
    return Block(data, source.randint(1, MAX_LANES), block.base, "noise")


_OWN = {"paper": (impossible, absent_tag), "planes": (rest_code, absent_lane)}[CODEC]
MALFORMATIONS: dict[str, Callable[[Block, random.Random], Block]] = {
    make.__name__: make
    for make in (
        cut_in_table, cut_zeros, cut_in_data, left_over, *_OWN, wrong_count, noise,
    )
}  # fmt: skip
"""Every way to spoil a block, by name. A few leave a good one by chance: the oracle decides."""


def lengths(source: random.Random) -> int:
    """Return a lane count that is likely to matter."""
    return source.choice(
        [
            source.randint(1, 64), source.randint(1, 64), source.randint(120, 136), source.randint(249, 264),
            source.randint(360, 370), source.randint(1, MAX_LANES), source.randint(2297, 2304), 2048, 2250,
        ]
    )  # fmt: skip


def mixture(number: int, base: int | None, spoil: float, source: random.Random) -> list[Block]:
    """Return ``number`` blocks of any kind, a share ``spoil`` of them spoilt; all of ``base`` if given."""
    blocks: list[Block] = []
    while len(blocks) < number:
        block = good(lengths(source), source.choice(ALL_PARAMETERS), source.choice(list(KINDS)), source)
        if source.random() < spoil:
            block = MALFORMATIONS[source.choice(list(MALFORMATIONS))](block, source)
        if base is not None:
            block = Block(block.data, block.count, base, block.kind)
        blocks.append(block)
    return blocks
