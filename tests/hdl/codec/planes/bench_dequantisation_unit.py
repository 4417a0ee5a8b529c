# SPDX-License-Identifier: BSD-2-Clause
"""cocotb bench of DequantisationUnit, and so of LaneDequantiser: every integer, at every bound."""

import random

import cocotb
import numpy as np
from chosen_beat import BEAT
from lockstep import Lockstep

from inceptionn.hdl.codec.planes.dequantisation_unit import DequantisationUnit
from inceptionn.sim.golden.codec import Bits
from inceptionn.sim.golden.planes import decompress_lanes
from inceptionn.wire import (
    BF16_LANES,
    BURST_BYTES,
    EXPONENT_BIAS,
    FP32_LANES,
    GROUP_LANES,
    LANE_BYTES,
    MAX_K,
    MIN_K,
    RAW_CODE,
    LaneType,
)

WIDTH = BEAT.lanes
"""fp32 lanes of a burst."""
GROUPS = WIDTH // GROUP_LANES
TYPES = (FP32_LANES, BF16_LANES) if BEAT.half else (FP32_LANES,)
EVERY_E0 = range(EXPONENT_BIAS - MAX_K, EXPONENT_BIAS - MIN_K + 1)


def planes_of(z: Bits, kind: LaneType) -> bytes:
    """Return a group's planes, and arbitrary bytes above them."""
    each_bit = (z >> np.arange(kind.planes, dtype=np.uint32)[:, np.newaxis] & 1).astype(np.uint8)
    planes = np.packbits(each_bit, axis=1, bitorder="little").tobytes()
    return planes + random.randbytes(BURST_BYTES - len(planes))


class TB(Lockstep):
    """A burst per cycle in, its lanes each in their cycle."""

    async def send(
        self, z: Bits, e0: int, raw: list[bool], present: int = WIDTH, kind: LaneType = FP32_LANES
    ) -> None:
        """Lanes as integers; those of groups that are ``raw`` are the words themselves.

        ``present``: how many words of 4 bytes the block has; ``z`` may say more.
        """
        codes, data, lanes, each = 0, b"", [], LANE_BYTES // kind.bytes
        for number, (group, is_raw) in enumerate(zip(np.split(z, GROUPS), raw, strict=True)):
            codes |= (RAW_CODE if is_raw else random.randrange(RAW_CODE)) << 4 * number
            data += group.astype(f"<u{kind.bytes}").tobytes() if is_raw else planes_of(group, kind)
            lanes.append(group if is_raw else decompress_lanes(group, e0, kind))
        burst = np.concatenate(lanes).astype(f"<u{kind.bytes}").tobytes()
        set_words = z.reshape(WIDTH, each).any(axis=1)
        impossible = sum(1 << i for i in range(present, WIDTH) if set_words[i])
        absent = (1 << WIDTH) - (1 << present)
        expected = {"impossible": impossible} if impossible else {"burst": int.from_bytes(burst, "little")}
        self.due(DequantisationUnit.LATENCY, **{"impossible": 0} | expected)
        base = e0 + kind.shim_offset
        await self.cycle(codes=codes, data=int.from_bytes(data, "little"), absent=absent, base=base)


@TB.test()
@cocotb.parametrize(kind=TYPES)
async def every_integer(tb, kind):
    """All that the planes can hold, in any neighbourhood; every bound meets every leading bit."""
    lanes, raw = GROUPS * kind.group_lanes, [False] * GROUPS
    generator = np.random.default_rng(random.getrandbits(32))
    integers = generator.permutation(1 << kind.planes).astype(np.uint32)
    for number, z in enumerate(integers.reshape(-1, lanes)):
        await tb.send(z, EVERY_E0[number % len(EVERY_E0)], raw, kind=kind)
    leading = [0, *(1 << bit for bit in range(kind.planes)), *(2 << bit for bit in range(kind.planes))]
    for e0 in EVERY_E0:
        for _ in range(4):
            some = generator.choice(leading, lanes) % (1 << kind.planes)
            await tb.send(some.astype(np.uint32), e0, raw, kind=kind)
    await tb.drain()


@TB.test()
async def raw_groups_and_absent_lanes(tb):
    """Raw groups keep their bits, NaNs and all; an absent lane that is not zero is marked.

    Lanes of every type, in successive cycles.
    """
    for _ in range(3000):
        kind = random.choice(TYPES)
        bits = [8 * kind.bytes if random.random() < 0.5 else kind.planes for _ in range(GROUPS)]
        raw = [width > kind.planes for width in bits]
        present = random.choice([WIDTH, random.randint(1, WIDTH)])
        first_absent = present * LANE_BYTES // kind.bytes
        z = np.array([random.getrandbits(width) for width in bits for _ in range(kind.group_lanes)])
        z[first_absent:] *= random.choice([0, 0, 1])
        if random.random() < 0.2:
            z[first_absent:] = 0
            z[random.choice([-1, -2])] = 1 << random.randrange(bits[-1])
        await tb.send(z.astype(np.uint32), random.choice(EVERY_E0), raw, present, kind)
    await tb.drain()
