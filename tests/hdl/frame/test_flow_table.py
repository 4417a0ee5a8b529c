# SPDX-License-Identifier: BSD-2-Clause
"""The flow table in simulation, and the circuit of its hash against the function of the wire format."""

import random
from collections.abc import Iterator

from amaranth.hdl import Module, Signal
from amaranth.sim import Simulator, SimulatorContext

from inceptionn.hdl.frame.flow_table import FLOW_SETS, FlowKey, flow_index
from inceptionn.wire import flow_index as slot_of


def keys(source: random.Random) -> Iterator[tuple[int, int, int, int]]:
    """Every key of a single bit, then random ones."""
    for bit in range(96):
        word = 1 << bit
        yield word & 0xFFFFFFFF, word >> 32 & 0xFFFFFFFF, word >> 64 & 0xFFFF, word >> 80
    for _ in range(500):
        yield (
            source.getrandbits(32), source.getrandbits(32), source.getrandbits(16), source.getrandbits(16)
        )  # fmt: skip


def test_index_is_the_function_of_the_wire_format() -> None:
    m = Module()
    key, index = Signal(FlowKey), Signal(range(FLOW_SETS))
    m.d.comb += index.eq(flow_index(key))
    wrong: list[tuple[int, int, int, int]] = []

    async def testbench(context: SimulatorContext) -> None:
        for flow in keys(random.Random(1)):
            fields = dict(zip(FlowKey.as_shape().members, flow, strict=True))
            context.set(key, fields)
            if context.get(index) != slot_of(*flow):
                wrong.append(flow)

    simulator = Simulator(m)
    simulator.add_testbench(testbench)
    simulator.run()
    assert wrong == []
