# SPDX-License-Identifier: BSD-2-Clause
"""cocotb bench of FlowDirectory: tables that see the frames it selects must stay equal.

The referee is the golden transmit engine, once with one table that sees all frames, and once as several
engines, each with a table of its own that sees the shared frames and a share of the others. Parameter
``half``, not needed: engines with bf16 lanes.
"""

import random
from collections import deque
from copy import deepcopy
from dataclasses import replace

import cocotb
from cocotb.triggers import FallingEdge
from engine_bench import bits
from flows import random_flow, segment, twins
from lockstep import Lockstep

from inceptionn.hdl.parallel.flow_directory import HEADER_BYTES, FlowFrame, Ticket
from inceptionn.sim.golden import EngineConfig, Flow, FlowTable, transmit
from inceptionn.sim.golden.packets import ACK, SYN, udp
from inceptionn.sim.runner import bench_parameters
from inceptionn.wire import DEFAULT_BF16_TOS, DEFAULT_MAX_PAYLOAD, FLOW_TABLE_SIZE, Verdict, planes_parameters

ENGINES = 3
HALF = bench_parameters().get("half", False)
BASE = EngineConfig()
if HALF:
    BASE = EngineConfig(parameters=planes_parameters(10), bf16_tos=DEFAULT_BF16_TOS)
CONFIGS = (
    BASE,
    BASE,
    replace(BASE, enable=False),
    replace(BASE, min_payload=80),
    replace(BASE, max_payload=64),
    replace(BASE, tos=0x68),
    replace(BASE, tos_mask=0),
    *([replace(BASE, bf16_tos=BASE.tos), replace(BASE, bf16_tos=0x68)] if HALF else []),
)
IN_TABLE = {Verdict.COMPRESSED, Verdict.EXPANDED, Verdict.AMBIGUOUS, Verdict.PHASE, Verdict.SYN}
"""Verdicts that say that the tables hold the flow now."""

Frame = tuple[bytes, bool, EngineConfig]


def frame(flow: Flow, **changes) -> bytes:
    """Return a segment of ``flow`` with a ToS byte of one of the kinds of lanes."""
    tos = DEFAULT_BF16_TOS if HALF and random.random() < 0.5 else BASE.tos
    return segment(flow, **{"tos": tos} | changes)


def any_frame(flows: list[Flow]) -> Frame:
    """Return a segment of one of the flows, mostly one with values, in any state; or something else."""
    flow = random.choice(flows)
    vlan = random.choice([None, None, 0x123])
    config = random.choice(CONFIGS) if random.random() < 0.2 else CONFIGS[0]
    bad = random.random() < 0.1
    match random.randrange(12):
        case 0:
            flags = random.choice([SYN, SYN | ACK])
            return (
                frame(flow, payload=b"", flags=flags, sequence=random.getrandbits(32), vlan=vlan),
                bad,
                config,
            )
        case 1:
            return frame(flow, sequence=random.getrandbits(32), vlan=vlan), bad, config
        case 2:
            return frame(flow, payload=b"", vlan=vlan), bad, config
        case 3:
            whole = frame(flow, vlan=vlan)
            return whole[: random.randint(1, len(whole))], bad, config
        case 4:
            return frame(flow, payload=bytes(random.choice([60, 66, 80])), vlan=vlan), bad, config
        case 5:
            return frame(flow, tos=0), bad, config
        case 6:
            return udp(bytes(64), source=flow.source, destination=flow.destination), bad, config
        case 7:
            spoilt = bytearray(frame(flow))
            spoilt[random.choice([14, 20, 23, 46, 47])] ^= 1 << random.randrange(8)
            return bytes(spoilt), bad, config
        case _:
            options = bytes(random.choice([0, 0, 12, 40]))
            return frame(flow, vlan=vlan, tcp_options=options), bad, config


class TB(Lockstep):
    """Offers headers, takes tickets, sends frames to tables as told, and confirms what an engine would."""

    def __init__(self, dut):
        pulses = ("frames_valid", "tickets_ready", "confirmations_valid")
        super().__init__(dut, pulses=pulses, layouts={"frames_payload": FlowFrame.as_shape()})
        self._forget()

    def _forget(self) -> None:
        self.one = FlowTable()
        self.tables = [FlowTable() for _ in range(ENGINES)]
        self.sent: deque[Frame] = deque()
        self.reports: list[tuple[int, int]] = []
        self.shared: list[bool] = []

    async def reset(self) -> None:
        await super().reset()
        self._forget()
        while not self.read("room"):
            await self.cycle()
            assert self.now < FLOW_TABLE_SIZE + 100, "the directory never gets ready"

    async def run(
        self, frames: list[Frame], *, offer: float = 1.0, take: float = 1.0, delay: int = 100
    ) -> None:
        """``offer``, ``take``: probabilities per cycle. Reports come up to ``delay`` cycles after tickets."""
        waiting = deque(frames)
        credit = 8
        while waiting or self.sent:
            inputs = {}
            credit = 8 if self.read("room") else credit
            if waiting and credit and random.random() < offer:
                credit -= not self.read("room")
                data, _, config = waiting[0]
                noise = random.randbytes(HEADER_BYTES)
                header = (data + noise[len(data) :])[:HEADER_BYTES]
                beginning = {"header": int.from_bytes(header, "little"), "config": bits(config)}
                inputs |= {"frames_valid": 1, "frames_payload": beginning}
                inputs |= {"bf16_tos": config.bf16_tos} if HALF else {}
                self.sent.append(waiting.popleft())
            if random.random() < take:
                inputs["tickets_ready"] = 1
                if self.read("tickets_valid"):
                    self._dispatch(self.read("tickets_payload"), delay)
            await self.cycle(**inputs | self._report())
        assert not self.read("tickets_valid"), "a ticket too many"

    def _report(self) -> dict[str, int]:
        """Take a report that is due."""
        due = [report for report in self.reports if report[0] <= self.now]
        if not due:
            return {}
        self.reports.remove(due[0])
        return {"confirmations_valid": 1, "confirmations_payload": due[0][1]}

    async def settle(self) -> None:
        """Wait until the directory has heard all reports."""
        while self.reports:
            await self.cycle(**self._report())
        for _ in range(12):
            await self.cycle()

    def _dispatch(self, word: int, delay: int) -> None:
        data, bad, config = self.sent.popleft()
        ticket = Ticket.from_bits(word)
        self.shared.append(bool(ticket.shared))
        expected = transmit(data, config, self.one, bad).verdict
        tables = self.tables if ticket.shared else [random.choice(self.tables)]
        for table in tables:
            found = transmit(data, config, table, bad).verdict
            assert found is expected, f"frame {len(self.shared)}: {found.name}, not {expected.name}"
        if ticket.shared and expected in IN_TABLE:
            self.reports.append((self.now + random.randint(1, delay), word))

    def check_tables(self) -> None:
        for table in self.tables:
            assert table._entries == self.one._entries


@TB.test()
@cocotb.parametrize(offer=[1.0, 0.1], take=[1.0, 0.3], delay=[10, 200])
async def tables_stay_equal(tb, offer, take, delay):
    """Flows that share slots, SYNs, bad and cut frames, changing settings; reports late and out of order."""
    flow = random_flow()
    flows = [flow, flow, *twins(flow), random_flow(), random_flow()]
    await tb.run([any_frame(flows) for _ in range(700)], offer=offer, take=take, delay=delay)
    tb.check_tables()
    assert 0.05 < sum(tb.shared) / len(tb.shared) < 0.95


@TB.test()
async def generations_come_round(tb):
    """More flows in one slot than there are generations, each confirmed late, and the first ones again."""
    first = random_flow()
    flows = [first]
    while len(flows) < 300:
        flows += twins(random.choice(flows))
    again = [flow for pair in zip(flows, flows[1:], strict=False) for flow in (*pair, pair[0])]
    await tb.run([(frame(flow), random.random() < 0.2, CONFIGS[0]) for flow in again], offer=0.2, delay=60)
    tb.check_tables()


@TB.test()
async def one_flow(tb):
    """Shared until its first frame is confirmed, and never again; what cannot touch the table never is."""
    flow = random_flow()
    await tb.run([(frame(flow), False, CONFIGS[0]) for _ in range(100)], delay=1)
    first = tb.shared.index(False)
    assert 0 < first < 10
    assert not any(tb.shared[first:])
    tb.shared.clear()
    others = [frame(random_flow(), payload=b""), frame(random_flow(), tos=0), udp(bytes(64))]
    await tb.run([(data, False, CONFIGS[0]) for data in others * 30])
    assert not any(tb.shared)


@TB.test()
async def shares_no_more_than_it_must(tb):
    """Share what comes after all reports only if it has SYN, or if its flow does not hold the slot."""
    flows = [random_flow() for _ in range(8)]
    flows += [twin for flow in flows[:4] for twin in twins(flow)]
    holders: dict[int, Flow] = {}
    certain: set[Flow] = set()
    seen = []
    for number in range(900):
        flow = random_flow() if number % 6 == 0 else random.choice(flows)
        kind, config = random.randrange(8), random.choice(CONFIGS) if random.random() < 0.2 else BASE
        changes = {"vlan": random.choice([None, 0x123]), "tcp_options": bytes(random.choice([0, 12, 40]))}
        match kind:
            case 0:
                changes |= {"payload": b"", "flags": random.choice([SYN, SYN | ACK])}
            case 1:
                changes |= {"payload": bytes(random.choice([0, 60, 66, 80]))}
            case 2:
                changes |= {"tos": 0}
        data = frame(flow, **changes)
        touches = transmit(data, config, deepcopy(tb.one), False).verdict in IN_TABLE
        bad = random.random() < 0.2  # which no engine confirms
        await tb.run([(data, bad, config)], delay=1)
        await tb.settle()
        known = holders.get(flow.slot) == flow
        expected = touches and (kind == 0 or not known or flow not in certain)
        assert tb.shared[-1] == expected, f"frame {number} of {flow}, kind {kind}"
        if touches:
            holders[flow.slot] = flow
            certain -= {flow} if not known else set()
            certain |= {flow} if not bad else set()
        seen.append(expected)
    assert 100 < sum(seen) < 800


@TB.test()
async def every_bit_of_the_lengths(tb):
    """Share nothing that no engine takes: the payload's length and its limits, each off by one bit."""
    frames = []
    for bit in range(2, 14):
        for length in (1 << bit, random.randrange(64, 8192, 4), random.randrange(64, 8192)):
            near = length ^ 1 << random.randrange(2, 14)
            limits = [{"min_payload": length}, {"max_payload": min(length, DEFAULT_MAX_PAYLOAD)}]
            limits += [{"min_payload": near}, {"max_payload": min(near, DEFAULT_MAX_PAYLOAD)}]
            config = replace(BASE, **{"min_payload": 0} | random.choice(limits))
            data = frame(random_flow(), payload=bytes(length), tos=BASE.tos)
            frames.append((data, False, config))
    touch = [transmit(*one[::2], FlowTable()).verdict in IN_TABLE for one in frames]
    await tb.run(frames)
    assert tb.shared == touch
    assert 0.3 < sum(touch) / len(touch) < 0.95


@TB.test()
async def pace(tb):
    """One frame per cycle of those that do not touch the table, one in at most five of the others."""
    for data, most in ((udp(bytes(64)), 1.1), (frame(random_flow()), 5.0)):
        begin = tb.now
        await tb.run([(data, False, CONFIGS[0])] * 200)
        cycles = (tb.now - begin) / 200
        tb.log.info("%.2f cycles per frame", cycles)
        assert cycles <= most


@TB.test()
async def forgets_at_reset(tb):
    flow = random_flow()
    await tb.run([(frame(flow), False, CONFIGS[0]) for _ in range(50)], delay=1)
    assert not tb.shared[-1]
    tb.now = 0
    await tb.reset()
    await FallingEdge(tb.dut.aclk)
    await tb.run([(frame(flow), False, CONFIGS[0])])
    assert tb.shared == [True]
