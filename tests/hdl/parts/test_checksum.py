# SPDX-License-Identifier: BSD-2-Clause
"""Internet checksum arithmetic in hardware: the sum over beats, and the 16-bit operations."""

import itertools
import random

from amaranth.hdl import Module, Signal
from amaranth.sim import Simulator

from inceptionn.hdl.parts.checksum import add16, canonical16, swap16
from inceptionn.sim.golden.checksum import fold

EDGES = (0, 1, 2, 0x00FF, 0x0100, 0x7FFF, 0x8000, 0xFF00, 0xFFFE, 0xFFFF)


def test_operations_on_words() -> None:
    """Every pair of edges, and random pairs, against arithmetic on integers."""
    m = Module()
    a, b = Signal(16), Signal(16)
    total, canonical, swapped = Signal(16), Signal(16), Signal(16)
    m.d.comb += [total.eq(add16(a, b)), canonical.eq(canonical16(a)), swapped.eq(swap16(a))]
    source = random.Random(1)
    pairs = [*itertools.product(EDGES, EDGES)]
    pairs += [(source.getrandbits(16), source.getrandbits(16)) for _ in range(1000)]

    async def bench(ctx) -> None:  # type: ignore[no-untyped-def]
        for x, y in pairs:
            ctx.set(a, x)
            ctx.set(b, y)
            assert ctx.get(total) == fold(x + y)
            assert ctx.get(canonical) == x % 0xFFFF
            assert ctx.get(swapped) == int.from_bytes(x.to_bytes(2, "little"), "big")

    simulator = Simulator(m)
    simulator.add_testbench(bench)
    simulator.run()


def test_results_have_16_bits() -> None:
    """However they are used in a wider expression."""
    a, b = Signal(16), Signal(16)
    assert len(add16(a, b)) == len(canonical16(a)) == len(swap16(a)) == 16
