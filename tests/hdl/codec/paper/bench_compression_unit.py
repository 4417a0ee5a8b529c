# SPDX-License-Identifier: BSD-2-Clause
"""cocotb bench of CompressionUnit: bursts in, tag word, aligned vector and cleared bits out, in step."""

import random

import numpy as np
from chosen_beat import BEAT
from compressor_blocks import (
    ALL_PARAMETERS,
    EDGE_LANES,
    WIDTH,
    any_parameters,
    groups_of,
    lanes_near,
    some_lanes,
)
from lockstep import Lockstep

from inceptionn.hdl.codec.paper.compression_unit import CompressionUnit
from inceptionn.sim.golden.codec import Bits
from inceptionn.wire import Parameters


class TB(Lockstep):
    """A burst per cycle in, all of its answer ``LATENCY`` cycles later."""

    async def send(self, lanes: Bits, params: Parameters) -> None:
        """Send a block's bursts, with numbers that hold one cycle longer than the last of them."""
        dut = self.dut
        dut.e0.value, dut.t.value, dut.b.value = params.e0, params.t, params.b
        for group in groups_of(lanes, params):
            self.due(
                CompressionUnit.latency_of(BEAT),
                tags=group.tags,
                size=len(group.data),
                aligned=int.from_bytes(group.data, "little"),
                cleared=int.from_bytes(group.cleared.astype("<u4").tobytes(), "little"),
            )
            await self.cycle(burst=group.burst, present=group.present)

    async def settle(self) -> None:
        await self.cycle(burst=random.getrandbits(32 * WIDTH), present=random.getrandbits(WIDTH))


@TB.test()
async def edges_at_every_bound_and_mode(tb):
    """Class edges in all lanes, beside neighbours of any other class."""
    near = EDGE_LANES[(EDGE_LANES >> 23 & 0xFF >= 110) & (EDGE_LANES >> 23 & 0xFF <= 129)]
    for params in ALL_PARAMETERS:
        await tb.send(np.random.default_rng(random.getrandbits(32)).permutation(near), params)
        await tb.settle()
    await tb.drain()


@TB.test()
async def every_number_of_lanes(tb):
    """Any number of lanes present, absent ones carrying noise; values of every kind, numbers of any."""
    for _ in range(60):
        for count in random.sample(range(1, 3 * WIDTH), 8):
            params = any_parameters(random) if random.getrandbits(1) else random.choice(ALL_PARAMETERS)
            await tb.send(some_lanes(count, params, random), params)
            await tb.settle()
    await tb.drain()


@TB.test()
async def numbers_of_any_size(tb):
    """Lanes beside numbers that hardware takes and no bound has."""
    for _ in range(200):
        params = any_parameters(random)
        await tb.send(lanes_near(3 * WIDTH, params, random), params)
        await tb.settle()
    await tb.drain()
