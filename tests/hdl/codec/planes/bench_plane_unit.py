# SPDX-License-Identifier: BSD-2-Clause
"""cocotb bench of PlaneUnit: bursts in; codes, aligned vector and the lanes' gains out, in their cycles."""

import random

import numpy as np
from chosen_beat import BEAT
from compressor_blocks import ALL_PARAMETERS, EDGE_LANES, TYPES, WIDTH, Group, groups_of, packed, some_lanes
from lockstep import Lockstep

from inceptionn.hdl.codec.planes.lane_quantiser import LaneQuantiser
from inceptionn.hdl.codec.planes.plane_unit import PlaneUnit
from inceptionn.sim.golden.codec import Bits
from inceptionn.wire import BF16_LANES, FP32_LANES, LaneType, Parameters

LATENCY = PlaneUnit.latency_of(BEAT)


class TB(Lockstep):
    """A burst per cycle in, its answers each in its cycle."""

    def __init__(self, dut):
        super().__init__(dut)
        self.gains: dict[int, Group] = {}
        """Cycle in which the unit tells what a burst has gained, and the burst."""

    async def cycle(self, **inputs: int) -> None:
        """Modulo 65535, the lossy burst is the burst, ``gained`` and ``carries`` together."""
        group = self.gains.pop(self.now, None)
        if group is not None:
            gained, carries = self.read("gained"), self.read("carries")
            lost = sum(map(int, group.cleared))
            assert (gained + carries.bit_count() + lost) % 0xFFFF == 0, f"cycle {self.now}: {gained:#x}"
        await super().cycle(**inputs)

    async def send(self, lanes: Bits, params: Parameters, kind: LaneType = FP32_LANES) -> None:
        self.dut.e0.value = params.e0 + kind.shim_offset
        for group in groups_of(lanes, params, kind):
            data = int.from_bytes(group.data, "little")
            self.due(LATENCY, codes=group.tags, size=len(group.data), aligned=data)
            self.gains[self.now + LaneQuantiser.LATENCY] = group
            await self.cycle(burst=group.burst, present=group.present)


@TB.test()
async def edges_at_every_bound(tb):
    """Every exponent and sign with the edges of the mantissa, in groups of mixed widths."""
    for params in ALL_PARAMETERS:
        exponents = EDGE_LANES >> 23 & 0xFF
        near = EDGE_LANES[(exponents >= params.e0 - 2) & (exponents <= params.e0 + 14)]
        order = np.random.default_rng(random.getrandbits(32))
        await tb.send(order.permutation(near), params)
        await tb.send(near[np.argsort(near & 0x7FFFFFFF, kind="stable")], params)
    await tb.drain()


@TB.test()
async def halves_of_a_step(tb):
    """Ties, and their neighbours on both sides, at every number of steps that has one bit or all."""
    for params in ALL_PARAMETERS:
        lanes = []
        for above in range(-1, 15):
            for mantissa in (0, 1 << 22 - max(above - 1, 0) if above < 23 else 0, 0x7FFFFF):
                for off in (-1, 0, 1):
                    bits = ((params.e0 + above) << 23 | mantissa) + off
                    lanes += [bits, bits | 1 << 31]
        await tb.send(np.array(lanes, np.uint32), params)
    await tb.drain()


@TB.test(skip=BF16_LANES not in TYPES)
async def every_bf16(tb):
    """Every bf16 value from zeros to raw lanes at every bound, beside others and in groups of one width."""
    every = np.arange(1 << 16, dtype=np.uint32) << 16
    for params in ALL_PARAMETERS:
        exponents = every >> 23 & 0xFF
        near = every[(exponents >= params.e0 - 1) & (exponents <= params.e0 + 14)]
        order = np.random.default_rng(random.getrandbits(32))
        for lanes in (order.permutation(near), near[np.argsort(near & 0x7FFFFFFF, kind="stable")]):
            await tb.send(packed(lanes, BF16_LANES), params, BF16_LANES)
    await tb.send(packed(every[order.permutation(1 << 16)], BF16_LANES), params, BF16_LANES)
    await tb.drain()


@TB.test()
async def every_number_of_lanes(tb):
    """Any number of lanes present, absent ones carrying noise; values of every kind."""
    for _ in range(60):
        for count in random.sample(range(1, 3 * WIDTH), 8):
            params, kind = random.choice(ALL_PARAMETERS), random.choice(TYPES)
            await tb.send(some_lanes(count, params, random, kind), params, kind)
    await tb.drain()
