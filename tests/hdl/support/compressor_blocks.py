# SPDX-License-Identifier: BSD-2-Clause
"""Stimulus of the compression datapath, and the parts of the golden model's answers that its stages give."""

import random
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from chosen_width import WIDTH

from inceptionn.sim.golden import codec, planes
from inceptionn.sim.golden.codec import Bits
from inceptionn.sim.golden.values import EDGE_MANTISSAS, KINDS
from inceptionn.sim.runner import bench_parameters
from inceptionn.wire import (
    BF16_LANES,
    CODE_WORD_BYTES,
    CODE_WORD_GROUPS,
    FP32_LANES,
    GROUP_LANES,
    LANE_BYTES,
    MAX_K,
    MAX_LANES,
    MODES,
    RAW_EXPONENT,
    STREAM_LANES,
    TAG_BYTES,
    TAG_WORD_BYTES,
    LaneType,
    Parameters,
    parameters,
)

LANES = WIDTH.lanes
"""Lanes of a beat of the bench's component: 8 or 16."""
CODEC = bench_parameters().get("codec", "paper")
"""Name of the codec of the bench's component."""
TYPES = (FP32_LANES, BF16_LANES) if WIDTH.bf16 else (FP32_LANES,)
"""Types of lanes that it takes."""
BEAT_BYTES = WIDTH.bytes
WORDS = BEAT_BYTES // TAG_WORD_BYTES
"""Tag words in a beat."""
ALL_PARAMETERS = tuple(parameters(k, mode) for k in range(1, MAX_K + 1) for mode in MODES)
if CODEC == "planes":  # T and B are not used
    ALL_PARAMETERS = tuple(Parameters(params.e0, 0, 255) for params in ALL_PARAMETERS[:: len(MODES)])
DEFAULT = ALL_PARAMETERS[9] if CODEC == "planes" else parameters(10, "bounded")
LENGTHS = (*range(1, 65), *range(360, 371), STREAM_LANES, *range(2297, MAX_LANES + 1))
"""Lane counts that matter: every one of few groups, those of an MTU of 1500, and the longest."""
EDGE_LANES = np.array(
    [s << 31 | e << 23 | m for e in range(256) for s in (0, 1) for m in EDGE_MANTISSAS], np.uint32
)
"""Every exponent and sign with every edge of the mantissa."""


def any_parameters(source: random.Random) -> Parameters:
    """Numbers that hardware takes but no bound and mode has; often at an end of their range.

    With planes, those of any bound.
    """
    if CODEC == "planes":
        return source.choice(ALL_PARAMETERS)
    e0 = source.choice([1, 126, 127, source.randint(1, 127)])
    t = source.choice([e0, 127, source.randint(e0, 127)])
    return Parameters(e0, t, source.choice([t, 127, 255, min(255, t + 7), source.randint(t, 255)]))


def lanes_near(count: int, params: Parameters, source: random.Random) -> Bits:
    """Lanes with exponents beside the parameters, where classes change and shifts end."""
    edges = [params.e0, params.t, params.b - 7, params.b - 8, params.b - 15, params.b - 16, 112, 127]
    if CODEC == "planes":
        # Any group without a raw lane; below, between and at the step's edges.
        edges = [params.e0, params.e0 + source.randint(0, RAW_EXPONENT)]
    exponents = [min(255, max(0, source.choice(edges) + source.randint(-2, 1))) for _ in range(count)]
    lanes = [
        source.getrandbits(1) << 31
        | exponent << 23
        | source.choice([*EDGE_MANTISSAS, source.getrandbits(23)])
        for exponent in exponents
    ]
    return np.array(lanes, np.uint32)


def word_of(values: np.ndarray | list[int], width: int) -> int:
    """Numbers of ``width`` bits, the first one lowest."""
    return sum(int(value) << width * index for index, value in enumerate(values))


@dataclass(frozen=True)
class Group:
    """A burst of one group, or two, and what the unit makes of it.

    ``lanes`` has an fp32 lane in each word, or two bf16 lanes. ``tags`` are tag words, or codes. ``cleared``
    is what the lossy lanes lack; with planes a number that is the same modulo 65535.
    """

    lanes: Bits
    present: int
    tags: int
    data: bytes
    cleared: Bits
    kind: LaneType = FP32_LANES

    @property
    def burst(self) -> int:
        return int.from_bytes(self.lanes.astype("<u4").tobytes(), "little")

    @property
    def count(self) -> int:
        """Groups that exist: 1 or 2."""
        return -(-self.present.bit_length() // GROUP_LANES)

    @property
    def table(self) -> bytes:
        """The tag words of the groups that exist."""
        return self.tags.to_bytes(self.count * TAG_WORD_BYTES, "little")

    @property
    def codes(self) -> list[int]:
        """The codes of the groups that exist."""
        return [self.tags >> 4 * group & 15 for group in range(self.count)]


def table_of(groups: list[Group]) -> bytes:
    """Return the table at the head of a block: tag words, or codes."""
    if CODEC == "paper":
        return b"".join(group.table for group in groups)
    codes = [code for group in groups for code in group.codes]
    codes += [0] * (-len(codes) % CODE_WORD_GROUPS)
    return bytes(low | high << 4 for low, high in zip(codes[::2], codes[1::2], strict=True))


def block_of(lanes: Bits, params: Parameters, kind: LaneType = FP32_LANES) -> bytes:
    """Return the golden model's block."""
    if CODEC == "planes":
        return planes.pack_block(planes.compress_lanes(words_of(lanes, kind), params.e0, kind), kind)
    return codec.pack_block(*codec.compress_lanes(lanes, params))


def aligned(tags: np.ndarray, vectors: Bits) -> bytes:
    """Vectors back to back, each cut to its tag's size."""
    return b"".join(
        int(vector).to_bytes(4, "little")[: TAG_BYTES[tag]] for tag, vector in zip(tags, vectors, strict=True)
    )


def packed(lanes: Bits, kind: LaneType) -> Bits:
    """fp32 values as words of lanes: as they are, or as pairs of bf16, their upper halves."""
    return lanes if kind is FP32_LANES else (lanes >> 16).astype("<u2").view("<u4").astype(np.uint32)


def words_of(lanes: Bits, kind: LaneType) -> np.ndarray:
    """Split words of lanes into the lanes themselves."""
    return lanes.astype("<u4").view(f"<u{kind.bytes}")


def groups_of(lanes: Bits, params: Parameters, kind: LaneType = FP32_LANES) -> list[Group]:
    """Return a block's words of lanes as bursts; absent lanes of the last carry noise."""
    if CODEC == "planes":
        return list(_plane_groups(lanes, params.e0, kind))
    tags, vectors = codec.compress_lanes(lanes, params)
    lossy, impossible = codec.decompress_lanes(tags, vectors, params.b)
    assert not impossible.any()
    assert not (lossy & ~lanes).any()
    groups = []
    for at in range(0, len(lanes), LANES):
        here = slice(at, at + LANES)
        count = len(lanes[here])
        noise = np.array([random.getrandbits(32) for _ in range(LANES - count)], np.uint32)
        groups.append(
            Group(
                np.concatenate([lanes[here], noise]),
                (1 << count) - 1,
                word_of(tags[here], 2),
                aligned(tags[here], vectors[here]),
                np.concatenate([lanes[here] & ~lossy[here], np.zeros(LANES - count, np.uint32)]),
            )
        )
    return groups


def _plane_groups(lanes: Bits, e0: int, kind: LaneType) -> Iterator[Group]:
    """:func:`groups_of` for the codec planes: each burst as a block of its own gives its codes and data."""
    quantised = planes.compress_lanes(words_of(lanes, kind), e0, kind)
    lost = (lanes.astype(np.int64) - quantised.bits.view("<u4")) % 0xFFFFFFFF
    each = LANE_BYTES // kind.bytes
    for at in range(0, len(lanes), LANES):
        here, own = slice(at, at + LANES), slice(each * at, each * (at + LANES))
        count = len(lanes[here])
        block = planes.pack_block(
            planes.Lanes(quantised.z[own], quantised.raw[own], quantised.bits[own]), kind
        )
        noise = np.array([random.getrandbits(32) for _ in range(LANES - count)], np.uint32)
        yield Group(
            np.concatenate([lanes[here], noise]),
            (1 << count) - 1,
            block[0],
            block[CODE_WORD_BYTES:],
            np.concatenate([lost[here], np.zeros(LANES - count, np.int64)]).astype(np.uint32),
            kind,
        )


class Packing:
    """What the Alignment Unit makes of vectors: which beats, and how much later than its latency.

    Nothing leaves in two beats of one cycle: one waits, and what comes after it, too.
    """

    def __init__(self) -> None:
        self._held = b""
        self._free = 0
        """The first cycle in which nothing leaves yet."""

    def push(self, vector: bytes, last: bool, now: int) -> Iterator[tuple[int, bytes, bool]]:
        """Extra cycles, beat (empty: none), and whether the block is done with it; from cycle ``now`` on."""
        self._held += vector
        leaving = []
        if len(self._held) >= BEAT_BYTES:
            leaving.append(self._held[:BEAT_BYTES])
            self._held = self._held[BEAT_BYTES:]
        if last and (self._held or not leaving):
            leaving.append(self._held and self._held.ljust(BEAT_BYTES, b"\0"))
            self._held = b""
        for index, beat in enumerate(leaving):
            moment = max(now, self._free)
            self._free = moment + 1
            assert moment <= now + 1, "no beat is more than one cycle late"
            yield moment - now, beat, last and index == len(leaving) - 1


def beats_of(data: bytes, before: int = 0) -> list[int]:
    """Return ``data`` as beats, after ``before`` zero bytes; zeros fill the last beat."""
    data = bytes(before) + data
    return [int.from_bytes(data[at : at + BEAT_BYTES], "little") for at in range(0, len(data), BEAT_BYTES)]


@dataclass(frozen=True)
class Shape:
    """A stored block as its reader knows it; `block_shape`, computed from lengths."""

    words: int
    """16-bit words before its first data byte, with those before its first tag."""
    data_bytes: int

    def fields(self) -> dict[str, int]:
        total = self.words * TAG_WORD_BYTES + self.data_bytes
        beats_of_tags = -(-self.words * TAG_WORD_BYTES // BEAT_BYTES)
        return {
            "tag_beats": beats_of_tags,
            "tag_whole": self.words * TAG_WORD_BYTES // BEAT_BYTES,
            "data_beats": -(-self.data_bytes // BEAT_BYTES),
            "beats": -(-total // BEAT_BYTES),
            "rotation": self.words % (BEAT_BYTES // TAG_WORD_BYTES),
            "ending": total % BEAT_BYTES,
        }


def some_length(source: random.Random) -> int:
    """Return a lane count that is likely to matter, mostly small."""
    return source.choice([source.randint(1, 24), source.randint(1, 64), source.randint(100, 300), 362])


def some_lanes(count: int, params: Parameters, source: random.Random, kind: LaneType = FP32_LANES) -> Bits:
    """``count`` words of lanes with any values."""
    values, number = source.choice([*KINDS, "near"]), count * LANE_BYTES // kind.bytes
    lanes = lanes_near(number, params, source) if values == "near" else KINDS[values](number, source)
    return packed(lanes, kind)
