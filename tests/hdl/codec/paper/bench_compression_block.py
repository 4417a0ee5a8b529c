# SPDX-License-Identifier: BSD-2-Clause
"""cocotb bench of CompressionBlock: every exponent, sign and mantissa edge at every bound and mode."""

import random

import numpy as np
from cocotb.triggers import FallingEdge
from compressor_blocks import ALL_PARAMETERS, EDGE_LANES, any_parameters, lanes_near
from lockstep import Lockstep

from inceptionn.hdl.codec.paper.compression_block import CompressionBlock
from inceptionn.sim.golden import codec
from inceptionn.wire import Parameters, Tag

LATENCY = CompressionBlock.LATENCY
Answer = tuple[int, int, int]
"""Tag, vector, cleared bits."""


def answers(lanes: codec.Bits, params: Parameters) -> list[Answer]:
    tags, vectors = codec.compress_lanes(lanes, params)
    lossy, _ = codec.decompress_lanes(tags, vectors, params.b)
    cleared = lanes & ~lossy
    assert (lanes & ~cleared == lossy).all(), "the lossy value has bits that the lane lacks"
    return list(zip(tags.tolist(), vectors.tolist(), cleared.tolist(), strict=True))


class TB(Lockstep):
    """A lane per cycle in, its answer ``LATENCY`` cycles later."""

    def setting(self, params: Parameters) -> None:
        self.dut.e0.value, self.dut.t.value, self.dut.b.value = params.e0, params.t, params.b

    async def sweep(self, lanes: codec.Bits, params: Parameters) -> None:
        """All lanes with the same numbers; a loop of its own, since there are a hundred thousand."""
        dut, numbers = self.dut, answers(lanes, params)
        lane, tag, vector, cleared = dut.lane, dut.tag, dut.vector, dut.cleared
        edge = FallingEdge(dut.aclk)
        self.setting(params)
        dut.present.value = 1
        for index, bits in enumerate([*lanes.tolist(), *[0] * LATENCY]):
            if index >= LATENCY:
                found = int(tag.value), int(vector.value), int(cleared.value)
                expected = numbers[index - LATENCY]
                assert found == expected, f"{lanes[index - LATENCY]:#010x} with {params}: {found}, {expected}"
                self.checked += 1
            lane.value = bits
            await edge

    async def one(self, lane: int, params: Parameters, present: bool) -> None:
        """Send a lane with numbers of its own, which hold for the two cycles that they must."""
        (answer,) = answers(np.array([lane], np.uint32), params)
        tag, vector, cleared = answer if present else (Tag.ZERO, 0, 0)
        self.due(LATENCY, tag=tag, vector=vector, cleared=cleared)
        self.setting(params)
        await self.cycle(lane=lane, present=present)
        await self.cycle(lane=random.getrandbits(32), present=random.getrandbits(1))


@TB.test()
async def every_exponent_bound_and_mode(tb):
    for params in ALL_PARAMETERS:
        await tb.sweep(np.random.default_rng(random.getrandbits(32)).permutation(EDGE_LANES), params)
    assert tb.checked == 28 * 256 * 2 * 9


@TB.test()
async def any_numbers(tb):
    """Numbers that no bound has, up to those whose shifts leave no bit of a lane."""
    for _ in range(150):
        params = any_parameters(random)
        await tb.sweep(lanes_near(60, params, random), params)


@TB.test()
async def numbers_change_between_lanes(tb):
    """Numbers hold for two cycles only; an absent lane leaves nothing, whatever it carries."""
    for _ in range(2000):
        params = any_parameters(random) if random.getrandbits(1) else random.choice(ALL_PARAMETERS)
        lane = int(lanes_near(1, params, random)[0])
        await tb.one(lane, params, present=random.random() < 0.8)
    await tb.drain()
    assert tb.checked == 3 * 2000
