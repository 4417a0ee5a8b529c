# SPDX-License-Identifier: BSD-2-Clause
"""cocotb bench of FlowTable against the golden table, with flows that share sets and nearly share keys."""

import random
from itertools import islice
from typing import Literal

import cocotb
from cocotb.triggers import ClockCycles
from flows import random_flow, twins
from lockstep import Lockstep

from inceptionn.hdl.frame.flow_table import FLOW_SETS, FlowKey, FlowTable
from inceptionn.sim.golden import Flow
from inceptionn.sim.golden import FlowTable as Model
from inceptionn.wire import FLOW_TABLE_SIZE

LATENCY = FlowTable.LATENCY
Change = Literal["store", "add", "free"]


class TB(Lockstep):
    """Look-ups, one after the other, each with the change that may follow."""

    def __init__(self, dut):
        super().__init__(dut, pulses=("store", "add", "free"))
        self.model = Model()
        self.hits = 0

    async def start(self) -> int:
        """Reset, and the cycles until the table is empty."""
        self.model = Model()
        for name in ("store", "add", "free"):
            getattr(self.dut, name).value = 0
        self.dut.aresetn.value = 0
        await ClockCycles(self.dut.aclk, 4)
        assert not self.dut.ready.value
        await self.reset()
        waited = 0
        while not self.read("ready"):
            await self.cycle()
            waited += 1
            assert waited <= FLOW_SETS, "never ready"
        return waited

    async def look_up(
        self, flow: Flow, change: Change | None = None, phase: int | None = None, wait: int = 0
    ) -> None:
        """Check the answer in its cycle; ``wait`` cycles later, make the change, with any phase or this."""
        asked = random.randrange(4)
        wanted = {
            "index": flow.slot,
            "key": FlowKey.as_shape().const(flow._asdict()).as_bits(),
            "phase": asked,
        }
        new = random.randrange(4) if phase is None else phase
        held = self.model.phase(flow)
        for _ in range(LATENCY):
            await self.cycle(**wanted)
        for cycle in range(wait + 1):
            assert bool(self.read("known")) == (held is not None), f"{flow}: known is wrong"
            assert self.read("differs") == (held not in (None, asked)), f"{flow}: phase is not {held}"
            now = {change: 1, "new_phase": new} if cycle == wait and change else {}
            await self.cycle(**wanted, **{"new_phase": random.randrange(4)} | now)
        self.hits += held is not None
        written = change == "store" or (change is not None and (change == "add") == (held is None))
        assert self.read("busy") == written, f"{change}: busy is wrong"
        if written:
            await self.cycle(index=random.randrange(FLOW_SETS), key=random.getrandbits(96))
            assert not self.read("busy")
        if change == "free":
            self.model.free(flow)
        elif change == "store" or (change == "add" and held is None):
            self.model.store(flow, new)


@cocotb.test()
async def against_the_model(dut):
    """Random look-ups in few sets: known flows, twins of them, displaced ones, unknown ones."""
    tb = TB(dut)
    waited = await tb.start()
    assert waited > FLOW_SETS - 10
    flows = [random_flow() for _ in range(15)]
    flows += [twin for flow in flows for twin in twins(flow)]
    for _ in range(3000):
        change = random.choice([None, None, "store", "store", "add", "free"])
        await tb.look_up(random.choice(flows), change, wait=random.choice([0, 0, 0, 1, 3]))
    assert 500 < tb.hits < 2500
    for _ in range(100):
        await tb.look_up(random_flow())


@TB.test()
async def stored_at_once(tb):
    """Check that a look-up that begins right after a change's write sees it, for every flow of the set."""
    for _ in range(60):
        flow = random_flow()
        rivals = [flow, *twins(flow)]
        for twin in rivals:
            phase = random.randrange(4)
            await tb.look_up(twin, random.choice(["store", "add"]), phase)
            await tb.look_up(twin, "store", phase ^ 3)
            await tb.look_up(twin)
            for rival in rivals:
                await tb.look_up(rival)
        await tb.look_up(twin, "free")
        await tb.look_up(twin)


@TB.test()
async def the_older_way_goes(tb):
    """Two flows of a set in every order of stores; a third displaces the one that was not stored last."""
    for order in range(8):
        flow = random_flow()
        first, second, third = islice((flow, *twins(flow)), 3)
        await tb.look_up(first, "store")
        await tb.look_up(second, "add")
        for step in range(3):
            await tb.look_up(second if order >> step & 1 else first, "store")
        await tb.look_up(third, "store")
        last, other = (second, first) if order >> 2 & 1 else (first, second)
        assert tb.model.phase(last) is not None
        assert tb.model.phase(other) is None
        for each in (first, second, third):
            await tb.look_up(each)


@TB.test()
async def every_part_of_the_key_counts(tb):
    """Flows of one set whose keys differ in one of the parts that are compared, and nowhere else."""
    width = 96 // FlowTable.PARTS
    for way in range(2):
        for part in range(FlowTable.PARTS):
            keys = (change << width * part for change in random.sample(range(1, 1 << width), 4095))
            apart = (
                Flow(key & 0xFFFFFFFF, key >> 32 & 0xFFFFFFFF, key >> 64 & 0xFFFF, key >> 80) for key in keys
            )
            for flow in islice((one for one in apart if one.slot == 0), 3):
                await tb.look_up(Flow(0, 0, 0, 0), "store", 1)
                await tb.look_up(flow)
        other = next(flow for flow in iter(random_flow, None) if flow.slot == 0)
        if way == 0:  # then the other way holds it
            await tb.look_up(Flow(0, 0, 0, 0), "free")
            await tb.look_up(other, "store")


@TB.test()
async def every_entry_is_emptied(tb):
    """Check that a reset forgets all of 1024 flows, two in each set."""
    flows: dict[int, list[Flow]] = {}
    while sum(map(len, flows.values())) < FLOW_TABLE_SIZE:
        flow = random_flow()
        held = flows.setdefault(flow.slot, [])
        if len(held) < 2:
            held.append(flow)
    every = [flow for held in flows.values() for flow in held]
    for flow in every:
        await tb.look_up(flow, "store")
    assert len(tb.model) == FLOW_TABLE_SIZE
    for flow in random.sample(every, 100):
        await tb.look_up(flow)
    assert tb.hits == 100
    await tb.start()
    tb.hits = 0
    for flow in every:
        await tb.look_up(flow)
    assert tb.hits == 0
