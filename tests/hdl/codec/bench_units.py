# SPDX-License-Identifier: BSD-2-Clause
"""cocotb bench of the codecs' lanes and units: inputs in each cycle, answers a fixed time later.

Parameters ``part``, the name in the catalogue, ``lanes``, ``bf16`` and ``codec``. Proofs hold these parts to
their algorithms; the bench shows each part at work against the golden model.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import cocotb
import numpy as np
from amaranth.lib import data
from chosen_width import WIDTH
from compressor_blocks import (
    ALL_PARAMETERS,
    EDGE_LANES,
    LANES,
    TYPES,
    Group,
    aligned,
    any_parameters,
    groups_of,
    lanes_near,
    packed,
    some_lanes,
    word_of,
)
from lockstep import Lockstep

from inceptionn.hdl.codec.paper.compression_block import CompressionBlock
from inceptionn.hdl.codec.paper.compression_unit import CompressionUnit
from inceptionn.hdl.codec.paper.decompression_unit import DecompressionUnit
from inceptionn.hdl.codec.paper.shifter_tree import ShifterTree
from inceptionn.hdl.codec.planes.dequantisation_unit import DequantisationUnit
from inceptionn.hdl.codec.planes.lane_quantiser import LaneQuantiser
from inceptionn.hdl.codec.planes.plane_unit import PlaneUnit
from inceptionn.sim.golden import codec, planes
from inceptionn.sim.golden.codec import Bits
from inceptionn.sim.runner import bench_parameters
from inceptionn.wire import (
    BURST_BYTES,
    EXPONENT_BIAS,
    FP32_LANES,
    LANE_BYTES,
    MAX_K,
    MIN_K,
    RAW_CODE,
    TAG_BYTES,
    LaneType,
    Parameters,
    Tag,
)


@dataclass(frozen=True)
class Step:
    """Inputs of a cycle, and the outputs that are due the latency later; those not named may be any."""

    inputs: dict[str, int]
    outputs: dict[str, Any] = field(default_factory=dict)
    group: Group | None = None
    """Whose gains the Plane Unit tells earlier."""


@dataclass(frozen=True)
class Part:
    """A part's latency, and its stimuli by name."""

    latency: int
    stimuli: tuple[Callable[[], Iterator[Step]], ...]
    layouts: dict[str, Any] = field(default_factory=dict)


def shuffled(lanes: Bits) -> Bits:
    return np.random.default_rng(random.getrandbits(32)).permutation(lanes)


def numbers_of(params: Parameters) -> dict[str, int]:
    return {"e0": params.e0, "t": params.t, "b": params.b}


# Compression: the numbers hold a cycle longer than the last lane, whatever that cycle carries.


def lane_steps(lanes: Bits, params: Parameters) -> Iterator[Step]:
    """Send a lane in each cycle; an absent one leaves nothing, whatever it carries."""
    tags, vectors = codec.compress_lanes(lanes, params)
    lossy, _ = codec.decompress_lanes(tags, vectors, params.b)
    cleared = lanes & ~lossy
    assert (lanes & ~cleared == lossy).all(), "the lossy value has bits that the lane lacks"
    for lane, *answer in zip(*(column.tolist() for column in (lanes, tags, vectors, cleared)), strict=True):
        present = random.random() < 0.9
        due = dict(zip(("tag", "vector", "cleared"), answer if present else (Tag.ZERO, 0, 0), strict=True))
        yield Step(numbers_of(params) | {"lane": lane, "present": present}, due)
    yield Step({"lane": random.getrandbits(32), "present": random.getrandbits(1)})


def edges_of_lanes() -> Iterator[Step]:
    """Exponents, signs and edges of the mantissa at every bound and mode."""
    for params in ALL_PARAMETERS:
        yield from lane_steps(shuffled(EDGE_LANES)[:1500], params)


def numbers_of_lanes() -> Iterator[Step]:
    """Numbers that no bound has, up to those whose shifts leave no bit of a lane; they change with lanes."""
    for count in [60] * 150 + [1] * 1500:
        params = any_parameters(random)
        yield from lane_steps(lanes_near(count, params, random), params)


def burst_steps(lanes: Bits, params: Parameters) -> Iterator[Step]:
    for group in groups_of(lanes, params):
        cleared = int.from_bytes(group.cleared.astype("<u4").tobytes(), "little")
        due = {"tags": group.tags, "size": len(group.data), "cleared": cleared}
        due["aligned"] = int.from_bytes(group.data, "little")
        yield Step(numbers_of(params) | {"burst": group.burst, "present": group.present}, due)
    yield Step({"burst": random.getrandbits(32 * LANES), "present": random.getrandbits(LANES)})


def edges_of_bursts() -> Iterator[Step]:
    """Class edges in all lanes, beside neighbours of any other class."""
    exponents = EDGE_LANES >> 23 & 0xFF
    for params in ALL_PARAMETERS:
        yield from burst_steps(shuffled(EDGE_LANES[(exponents >= 110) & (exponents <= 129)]), params)


def any_bursts() -> Iterator[Step]:
    """Any number of lanes, absent ones carrying noise; numbers of any bound, and others."""
    for count in random.choices(range(1, 3 * LANES + 1), k=700):
        params = any_parameters(random) if random.random() < 0.6 else random.choice(ALL_PARAMETERS)
        yield from burst_steps(some_lanes(count, params, random), params)


def tree_step(tags: list[int]) -> Step:
    vectors = np.array([random.getrandbits(8 * TAG_BYTES[tag]) for tag in tags], np.uint32)
    together = aligned(np.array(tags), vectors)
    due = {"size": len(together), "aligned": int.from_bytes(together, "little")}
    return Step({"tags": word_of(tags, 2), "vectors": word_of(vectors, 32)}, due)


def every_quarter() -> Iterator[Step]:
    """All 256 tags of four lanes in every place, beside random others, eight times."""
    for _ in range(8):
        for words in zip(*(random.sample(range(256), 256) for _ in range(LANES // 4)), strict=True):
            yield tree_step([word >> 2 * lane & 3 for word in words for lane in range(4)])


def every_total() -> Iterator[Step]:
    """Every size from 0 to that of a burst, each with one lane of another class than all others, too."""
    for tag, lane, other in np.ndindex(4, LANES, 4):
        yield tree_step([other if index == lane else tag for index in range(LANES)])
    for raw, rest in np.ndindex(LANES + 1, 3):
        tags = [3] * raw + [rest] * (LANES - raw)
        yield from (tree_step(tags), tree_step(tags[::-1]))


def plane_steps(lanes: Bits, params: Parameters, kind: LaneType = FP32_LANES) -> Iterator[Step]:
    for group in groups_of(lanes, params, kind):
        due = {"codes": group.tags, "size": len(group.data), "aligned": int.from_bytes(group.data, "little")}
        inputs = {"burst": group.burst, "present": group.present, "e0": params.e0 + kind.shim_offset}
        yield Step(inputs, due, group)


def edges_of_planes() -> Iterator[Step]:
    """Exponents and edges of the mantissa in groups of mixed widths and of one; every bf16 value, too."""
    every = np.arange(1 << 16, dtype=np.uint32) << 16
    for params in ALL_PARAMETERS:
        for kind in TYPES:
            some = EDGE_LANES if kind is FP32_LANES else every
            exponents = some >> 23 & 0xFF
            near = some[(exponents >= params.e0 - 2) & (exponents <= params.e0 + 14)]
            for lanes in (shuffled(near), near[np.argsort(near & 0x7FFFFFFF, kind="stable")]):
                yield from plane_steps(packed(lanes, kind), params, kind)


def halves_of_a_step() -> Iterator[Step]:
    """Ties, and their neighbours on both sides, at every number of steps that has one bit or all."""
    for params in ALL_PARAMETERS:
        mantissas = [(0, 1 << 22 - max(above - 1, 0), 0x7FFFFF) for above in range(-1, 15)]
        ties = [(params.e0 + i - 1) << 23 | m for i, row in enumerate(mantissas) for m in row]
        lanes = [tie + off | sign << 31 for tie in ties for off in (-1, 0, 1) for sign in (0, 1)]
        yield from plane_steps(np.array(lanes, np.uint32), params)


def any_planes() -> Iterator[Step]:
    """Any number of lanes present, absent ones carrying noise; values of every kind."""
    for count in random.choices(range(1, 3 * LANES), k=480):
        params, kind = random.choice(ALL_PARAMETERS), random.choice(TYPES)
        yield from plane_steps(some_lanes(count, params, random, kind), params, kind)


# Decompression.


def group_step(tags: Bits, vectors: Bits, base: int) -> Step:
    """Send a group's tags and vectors; bits above a vector's size are noise, impossible lanes may be any."""
    lanes, impossible = codec.decompress_lanes(tags, vectors, base)
    noise = [random.getrandbits(32) << 8 * TAG_BYTES[tag] & 0xFFFFFFFF for tag in tags]
    noisy = vectors | np.array(noise, np.uint32)
    burst = {lane: int(lanes[lane]) for lane in np.flatnonzero(~impossible).tolist()}
    due = {"impossible": word_of(impossible, 1), "burst": burst}
    return Step({"tags": word_of(tags, 2), "vectors": word_of(noisy, 32), "base": base}, due)


def every_16_bit_vector() -> Iterator[Step]:
    for vectors in shuffled(np.arange(1 << 16, dtype=np.uint32)).reshape(-1, LANES):
        yield group_step(np.full(LANES, Tag.BITS16, np.uint8), vectors, random.getrandbits(8))


def every_8_bit_vector() -> Iterator[Step]:
    """With every base, those at which exponents fall below 1 included."""
    for base in range(256):
        for vectors in np.arange(256, dtype=np.uint32).reshape(-1, LANES):
            yield group_step(np.full(LANES, Tag.BITS8, np.uint8), np.roll(vectors, base), base)


def any_tags() -> Iterator[Step]:
    """Neighbouring lanes of different classes, random vectors; raw lanes keep their bits, NaNs and all."""
    for _ in range(4000):
        tags = np.array(random.choices(range(4), k=LANES), np.uint8)
        vectors = np.array([random.getrandbits(8 * TAG_BYTES[tag]) for tag in tags], np.uint32)
        yield group_step(tags, vectors, random.getrandbits(8))


EVERY_E0 = range(EXPONENT_BIAS - MAX_K, EXPONENT_BIAS - MIN_K + 1)


def planes_of(z: Bits, kind: LaneType) -> bytes:
    """Return a group's planes, and arbitrary bytes above them."""
    each_bit = (z >> np.arange(kind.planes, dtype=np.uint32)[:, np.newaxis] & 1).astype(np.uint8)
    together = np.packbits(each_bit, axis=1, bitorder="little").tobytes()
    return together + random.randbytes(BURST_BYTES - len(together))


def integer_step(
    z: Bits, e0: int, kind: LaneType, raw: list[bool] | None = None, present: int = LANES
) -> Step:
    """Lanes as integers; those of groups that are ``raw`` are the words themselves.

    ``present``: how many words of 4 bytes the block has; ``z`` may say more.
    """
    codes, burst, lanes, raw = 0, b"", [], raw or [False] * WIDTH.groups
    for number, (group, is_raw) in enumerate(zip(np.split(z, WIDTH.groups), raw, strict=True)):
        codes |= (RAW_CODE if is_raw else random.randrange(RAW_CODE)) << 4 * number
        burst += group.astype(f"<u{kind.bytes}").tobytes() if is_raw else planes_of(group, kind)
        lanes.append(group if is_raw else planes.decompress_lanes(group, e0, kind))
    restored = np.concatenate(lanes).astype(f"<u{kind.bytes}").tobytes()
    set_words = z.reshape(LANES, LANE_BYTES // kind.bytes).any(axis=1)
    impossible = sum(1 << i for i in range(present, LANES) if set_words[i])
    due: dict[str, Any] = {"impossible": impossible}
    if not impossible:
        due["burst"] = dict(enumerate(np.frombuffer(restored, "<u4").tolist()))
    absent = (1 << LANES) - (1 << present)
    inputs = {"codes": codes, "data": int.from_bytes(burst, "little"), "absent": absent}
    return Step(inputs | {"base": e0 + kind.shim_offset}, due)


def every_integer() -> Iterator[Step]:
    """All that the planes can hold, in any neighbourhood; every bound meets every leading bit."""
    for kind in TYPES:
        lanes = WIDTH.groups * kind.group_lanes
        integers = shuffled(np.arange(1 << kind.planes, dtype=np.uint32)).reshape(-1, lanes)
        for number, z in enumerate(integers):
            yield integer_step(z, EVERY_E0[number % len(EVERY_E0)], kind)
        leading = [0, *(1 << bit for bit in range(kind.planes)), *(2 << bit for bit in range(kind.planes))]
        for e0 in [*EVERY_E0] * 4:
            some = np.array(random.choices(leading, k=lanes), np.uint32) % (1 << kind.planes)
            yield integer_step(some, e0, kind)


def raw_groups_and_absent_lanes() -> Iterator[Step]:
    """Raw groups keep their bits, NaNs and all; an absent lane that is not zero is marked."""
    for _ in range(3000):
        kind = random.choice(TYPES)
        bits = [8 * kind.bytes if random.random() < 0.5 else kind.planes for _ in range(WIDTH.groups)]
        present = random.choice([LANES, random.randint(1, LANES)])
        first_absent = present * LANE_BYTES // kind.bytes
        z = np.array([random.getrandbits(width) for width in bits for _ in range(kind.group_lanes)])
        z[first_absent:] *= random.choice([0, 0, 1])
        if random.random() < 0.2:
            z[first_absent:] = 0
            z[random.choice([-1, -2])] = 1 << random.randrange(bits[-1])
        raw = [width > kind.planes for width in bits]
        yield integer_step(z.astype(np.uint32), random.choice(EVERY_E0), kind, raw, present)


BURST_LAYOUT = {"burst": data.ArrayLayout(32, LANES)}
PARTS = {
    "compression_block": Part(CompressionBlock.LATENCY, (edges_of_lanes, numbers_of_lanes)),
    "compression_unit": Part(CompressionUnit.latency_of(WIDTH), (edges_of_bursts, any_bursts)),
    "shifter_tree": Part(ShifterTree.latency_of(WIDTH), (every_quarter, every_total)),
    "plane_unit": Part(PlaneUnit.latency_of(WIDTH), (edges_of_planes, halves_of_a_step, any_planes)),
    "decompression_unit": Part(
        DecompressionUnit.LATENCY, (every_16_bit_vector, every_8_bit_vector, any_tags), BURST_LAYOUT
    ),
    "dequantisation_unit": Part(
        DequantisationUnit.LATENCY, (every_integer, raw_groups_and_absent_lanes), BURST_LAYOUT
    ),
}
PART = PARTS[bench_parameters()["part"]]


class TB(Lockstep):
    """A step in each cycle."""

    def __init__(self, dut):
        super().__init__(dut, layouts=PART.layouts)
        self.gains: dict[int, Group] = {}
        """Cycle in which the Plane Unit tells what a burst has gained, and the burst."""

    async def cycle(self, **inputs: Any) -> None:
        """Modulo 65535, the lossy burst is the burst, ``gained`` and ``carries`` together."""
        group = self.gains.pop(self.now, None)
        if group is not None:
            gained, carries = self.read("gained"), self.read("carries")
            total = gained + carries.bit_count() + sum(map(int, group.cleared))
            assert total % 0xFFFF == 0, f"cycle {self.now}: {gained:#x}"
        await super().cycle(**inputs)

    async def run(self, steps: Iterator[Step]) -> None:
        for step in steps:
            self.due(PART.latency, **step.outputs)
            if step.group is not None:
                self.gains[self.now + LaneQuantiser.LATENCY] = step.group
            await self.cycle(**step.inputs)
        await self.drain()
        assert self.checked > 300


@TB.test()
@cocotb.parametrize(stimulus=[stimulus.__name__ for stimulus in PART.stimuli])
async def answers(tb, stimulus):
    """Every answer comes in its cycle."""
    await tb.run(globals()[stimulus]())
