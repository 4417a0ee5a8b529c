# SPDX-License-Identifier: BSD-2-Clause
"""cocotb bench of FlowTable against the golden table, with flows that share slots and nearly share keys."""

import random
from itertools import islice

import cocotb
from cocotb.triggers import ClockCycles
from flows import random_flow, twins
from lockstep import Lockstep

from inceptionn.hdl.frame.flow_table import FlowKey, FlowTable
from inceptionn.sim.golden import Flow
from inceptionn.sim.golden import FlowTable as Model
from inceptionn.wire import FLOW_TABLE_SIZE

LATENCY = FlowTable.LATENCY


class TB(Lockstep):
    """Look-ups, one after the other, each with what it may teach."""

    def __init__(self, dut):
        super().__init__(dut, pulses=("learn",))
        self.model = Model()
        self.hits = 0

    async def start(self) -> int:
        """Reset, and the cycles until the table is empty."""
        self.model = Model()
        self.dut.learn.value = 0
        self.dut.aresetn.value = 0
        await ClockCycles(self.dut.aclk, 4)
        assert not self.dut.ready.value
        await self.reset()
        waited = 0
        while not self.read("ready"):
            await self.cycle()
            waited += 1
            assert waited <= FLOW_TABLE_SIZE, "never ready"
        return waited

    async def look_up(self, flow: Flow, teach: int | None = None, wait: int = 0) -> None:
        """Check the answer in its cycle; then teach phase ``teach``, ``wait`` cycles later."""
        key = FlowKey.as_shape().const(flow._asdict()).as_bits()
        for _ in range(LATENCY):
            await self.cycle(index=flow.slot, key=key)
        for cycle in range(wait + 1):
            phase = self.model.phase(flow)
            assert bool(self.read("known")) == (phase is not None), f"{flow}: known is wrong"
            assert phase is None or self.read("phase") == phase, f"{flow}: phase is not {phase}"
            if cycle == wait and teach is not None:
                await self.cycle(index=flow.slot, key=key, learn=1, learn_phase=teach)
            else:
                await self.cycle(index=flow.slot, key=key, learn_phase=random.randrange(4))
        self.hits += phase is not None
        if teach is not None:
            self.model.learn(flow, teach)


@cocotb.test()
async def against_the_model(dut):
    """Random look-ups of few slots: known flows, twins of them, displaced ones, unknown ones."""
    tb = TB(dut)
    waited = await tb.start()
    assert waited > FLOW_TABLE_SIZE - 10
    flows = [random_flow() for _ in range(25)]
    flows += [twin for flow in flows for twin in twins(flow)]
    for _ in range(1500):
        teach = random.randrange(4) if random.random() < 0.4 else None
        await tb.look_up(random.choice(flows), teach, random.choice([0, 0, 0, 1, 3]))
    assert 100 < tb.hits < 1400
    for _ in range(100):
        await tb.look_up(random_flow())


@TB.test()
async def learnt_at_once(tb):
    """Check that a look-up that begins in the cycle after ``learn`` sees it.

    It also sees a flow that took the place of another one.
    """
    for _ in range(100):
        flow = random_flow()
        for twin in [flow, *twins(flow)]:
            phase = random.randrange(4)
            await tb.look_up(twin, phase)
            await tb.look_up(twin, phase ^ 3)
            await tb.look_up(twin)
            await tb.look_up(flow)


@TB.test()
async def every_part_of_the_key_counts(tb):
    """Flows of one slot whose keys differ in one of the eight parts that are compared, and nowhere else."""
    for part in range(8):
        keys = (change << 12 * part for change in random.sample(range(1, 1 << 12), 4095))
        apart = (
            Flow(key & 0xFFFFFFFF, key >> 32 & 0xFFFFFFFF, key >> 64 & 0xFFFF, key >> 80) for key in keys
        )
        for flow in islice((one for one in apart if one.slot == 0), 3):
            await tb.look_up(Flow(0, 0, 0, 0), 1)
            await tb.look_up(flow)


@TB.test()
async def every_slot_is_emptied(tb):
    """Check that a reset forgets all of 1024 flows, one in each slot."""
    flows = {}
    while len(flows) < FLOW_TABLE_SIZE:
        flow = random_flow()
        flows.setdefault(flow.slot, flow)
    for flow in flows.values():
        await tb.look_up(flow, random.randrange(4))
    assert len(tb.model) == FLOW_TABLE_SIZE
    for flow in random.sample(list(flows.values()), 100):
        await tb.look_up(flow)
    assert tb.hits == 100
    await tb.start()
    tb.hits = 0
    for flow in flows.values():
        await tb.look_up(flow)
    assert tb.hits == 0
