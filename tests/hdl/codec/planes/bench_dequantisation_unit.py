# SPDX-License-Identifier: BSD-2-Clause
"""cocotb bench of DequantisationUnit, and so of LaneDequantiser: every integer, at every bound."""

from __future__ import annotations

import random

import cocotb
import numpy as np
from lockstep import Lockstep

from inceptionn.hdl.codec.planes.dequantisation_unit import DequantisationUnit
from inceptionn.sim.golden.codec import Bits
from inceptionn.sim.golden.planes import decompress_lanes
from inceptionn.sim.runner import bench_parameters
from inceptionn.wire import BURST_BYTES, EXPONENT_BIAS, FP32_LANES, GROUP_LANES, MAX_K, MIN_K, RAW_CODE

WIDTH = bench_parameters().get("lanes", GROUP_LANES)
PLANES = FP32_LANES.planes
"""Lanes of a burst."""
EVERY_E0 = range(EXPONENT_BIAS - MAX_K, EXPONENT_BIAS - MIN_K + 1)


def planes_of(z: Bits) -> bytes:
    """A group's 15 planes, and arbitrary bytes above them."""
    planes = [sum((int(lane) >> bit & 1) << i for i, lane in enumerate(z)) for bit in range(PLANES)]
    return bytes(planes) + random.randbytes(BURST_BYTES - PLANES)


class TB(Lockstep):
    """A burst per cycle in, its lanes each in their cycle."""

    async def send(self, z: Bits, e0: int, raw: list[bool], absent: int = 0) -> None:
        """Lanes as integers; those of groups that are ``raw`` are the fp32 words themselves."""
        codes, data, lanes = 0, b"", []
        for number, is_raw in enumerate(raw):
            group = z[number * GROUP_LANES : (number + 1) * GROUP_LANES]
            codes |= (RAW_CODE if is_raw else random.randrange(RAW_CODE)) << 4 * number
            data += group.astype("<u4").tobytes() if is_raw else planes_of(group)
            lanes.append(group if is_raw else decompress_lanes(group, e0))
        burst = np.concatenate(lanes).astype("<u4").tobytes()
        impossible = sum(bool(lane) << i for i, lane in enumerate(z)) & absent
        expected = {"impossible": impossible} if impossible else {"burst": int.from_bytes(burst, "little")}
        self.due(DequantisationUnit.LATENCY, **{"impossible": 0} | expected)
        await self.cycle(codes=codes, data=int.from_bytes(data, "little"), absent=absent, base=e0)


@cocotb.test()
async def every_integer(dut):
    """All that 15 planes can hold, in any neighbourhood; every bound meets every leading bit."""
    tb = await TB.started(dut)
    integers = np.random.default_rng(random.getrandbits(32)).permutation(1 << PLANES).astype(np.uint32)
    for number, z in enumerate(integers.reshape(-1, WIDTH)):
        await tb.send(z, EVERY_E0[number % len(EVERY_E0)], [False] * (WIDTH // GROUP_LANES))
    leading = np.array([0, *(1 << bit for bit in range(PLANES)), *(2 << bit for bit in range(PLANES))])
    for e0 in EVERY_E0:
        for _ in range(4):
            some = np.random.default_rng(random.getrandbits(32)).choice(leading, WIDTH)
            await tb.send((some % (1 << PLANES)).astype(np.uint32), e0, [False] * (WIDTH // GROUP_LANES))
    await tb.drain()


@cocotb.test()
async def raw_groups_and_absent_lanes(dut):
    """Raw groups keep their bits, NaNs and all; an absent lane that is not zero is marked."""
    tb = await TB.started(dut)
    for _ in range(3000):
        raw = [random.random() < 0.5 for _ in range(WIDTH // GROUP_LANES)]
        present = random.choice([WIDTH, random.randint(1, WIDTH)])
        z = np.array([random.getrandbits(32 if each else PLANES) for each in raw for _ in range(GROUP_LANES)])
        z[present:] *= random.choice([0, 0, 1])
        if random.random() < 0.2:
            z[present:] = 0
            z[-1] = 1 << random.randrange(32 if raw[-1] else PLANES)
        absent = (1 << WIDTH) - (1 << present)
        await tb.send(z.astype(np.uint32), random.choice(EVERY_E0), raw, absent)
    await tb.drain()
