# SPDX-License-Identifier: BSD-2-Clause
"""cocotb bench of FlowSharing: tables that see the frames it selects must stay equal.

The referee is the golden transmit engine, once with one table that sees all frames, and once as several
engines, each with a table of its own that sees the shared frames and a share of the others. Parameter
``bf16``, not needed: engines with bf16 lanes.
"""

import random
from collections import deque
from dataclasses import replace

import cocotb
from engine_bench import bits
from flows import random_flow, segment, twins
from lockstep import Lockstep

from inceptionn.hdl.parallel.flow_sharing import HEADER_BYTES, FlowFrame, FlowSharing
from inceptionn.sim.golden import EngineConfig, Flow, FlowTable, transmit
from inceptionn.sim.golden.packets import ACK, FIN, RST, SYN, udp
from inceptionn.sim.runner import bench_parameters
from inceptionn.wire import DEFAULT_BF16_TOS, planes_parameters

ENGINES = 3
BF16 = bench_parameters().get("bf16", False)
BASE = EngineConfig()
if BF16:
    BASE = EngineConfig(parameters=planes_parameters(10), bf16_tos=DEFAULT_BF16_TOS)
LEARNING = replace(BASE, learn_phases=True)
CONFIGS = (
    *(BASE, BASE, LEARNING, LEARNING),
    *(replace(one, enable=False) for one in (BASE, LEARNING)),
    replace(LEARNING, parameters=replace(BASE.parameters, e0=0)),
    replace(LEARNING, min_payload=80),
    *(replace(one, tos=0x68) for one in (BASE, LEARNING)),
    *(replace(one, tos_mask=0) for one in (BASE, LEARNING)),
    *([replace(LEARNING, bf16_tos=BASE.tos), replace(LEARNING, bf16_tos=0x68)] if BF16 else []),
)
FLAGS = (ACK, ACK, ACK, SYN, SYN | ACK, FIN, FIN | ACK, RST, RST | ACK, SYN | FIN, SYN | RST, 0xF8)

Frame = tuple[bytes, bool, EngineConfig]


def frame(flow: Flow, **changes) -> bytes:
    """Return a segment of ``flow`` with a ToS byte of one of the kinds of lanes."""
    tos = DEFAULT_BF16_TOS if BF16 and random.random() < 0.5 else BASE.tos
    return segment(flow, **{"tos": tos} | changes)


def any_frame(flows: list[Flow]) -> Frame:
    """Return a segment of one of the flows in any state, mostly a whole one; or something else."""
    flow, config, bad = random.choice(flows), random.choice(CONFIGS), random.random() < 0.1
    changes = {"vlan": random.choice([None, None, 0x123]), "flags": random.choice(FLAGS)}
    changes["sequence"] = random.choice([-1, 0, 0, random.getrandbits(32)])
    match random.randrange(10):
        case 0:
            whole = frame(flow, **changes)
            return whole[: random.randint(1, len(whole))], bad, config
        case 1:
            return udp(bytes(64), source=flow.source, destination=flow.destination), bad, config
        case 2 | 3:
            spoilt = bytearray(frame(flow, **changes))
            spoilt[random.choice([12, 13, 14, 15, 20, 23, 46, 47])] ^= 1 << random.randrange(8)
            return bytes(spoilt), bad, config
        case 4:
            return frame(flow, tos=0, **changes), bad, config
        case 5:
            return frame(flow, payload=bytes(random.choice([0, 60, 66, 80])), **changes), bad, config
        case _:
            return frame(flow, tcp_options=bytes(random.choice([0, 0, 12, 40])), **changes), bad, config


class TB(Lockstep):
    """Offers headers, and sends frames to tables as told."""

    def __init__(self, dut):
        layouts = {"frames_payload": FlowFrame.as_shape()}
        super().__init__(dut, pulses=("frames_valid",), quiet={"shared_valid": 0}, layouts=layouts)
        self.one = FlowTable()
        self.tables = [FlowTable() for _ in range(ENGINES)]
        self.sent: deque[Frame] = deque()
        self.shared: list[bool] = []

    async def step(self, **inputs) -> None:
        if self.read("shared_valid"):
            self._dispatch(bool(self.read("shared_payload")))
        await self.cycle(**inputs)

    async def run(self, frames: list[Frame], *, offer: float = 1.0) -> None:
        """``offer``: probability per cycle that a frame begins."""
        waiting = deque(frames)
        while waiting or self.sent:
            inputs = {"frames_payload": {}} | ({"bf16_tos": random.getrandbits(8)} if BF16 else {})
            if waiting and random.random() < offer:
                data, _, config = waiting[0]
                noise = random.randbytes(HEADER_BYTES)
                header = (data + noise[len(data) :])[:HEADER_BYTES]
                beginning = {"header": int.from_bytes(header, "little"), "config": bits(config)}
                inputs |= {"frames_valid": 1, "frames_payload": beginning}
                inputs |= {"bf16_tos": config.bf16_tos} if BF16 else {}
                self.sent.append(waiting.popleft())
                self.due(FlowSharing.LATENCY, shared_valid=1)
            await self.step(**inputs)
        for _ in range(10):
            await self.step()

    def _dispatch(self, shared: bool) -> None:
        data, bad, config = self.sent.popleft()
        self.shared.append(shared)
        expected = transmit(data, config, self.one, bad).verdict
        for table in self.tables if shared else [random.choice(self.tables)]:
            found = transmit(data, config, table, bad).verdict
            assert found is expected, f"frame {len(self.shared)}: {found.name}, not {expected.name}"

    def check_tables(self) -> None:
        for table in self.tables:
            assert table._ways == self.one._ways


@TB.test()
@cocotb.parametrize(offer=[1.0, 0.3])
async def tables_stay_equal(tb, offer):
    """Flows that share sets, in any state; bad, cut and spoilt frames; settings that change."""
    for _ in range(4):
        flow = random_flow()
        flows = [flow, flow, *twins(flow), random_flow()]
        await tb.run([any_frame(flows) for _ in range(500)], offer=offer)
    tb.check_tables()
    assert 0.2 < sum(tb.shared) / len(tb.shared) < 0.9


@TB.test()
async def shares_no_more_than_it_must(tb):
    """Share segments with SYN, FIN or RST, and with ``learn_phases`` every tagged one; nothing else."""
    cases = []
    for vlan in (None, 0x123):
        for tos in (BASE.tos, BASE.tos | 3, 0, *([DEFAULT_BF16_TOS] if BF16 else [])):
            for flags in range(256):
                for config in random.sample(CONFIGS, 3):
                    data = frame(random_flow(), tos=tos, vlan=vlan, flags=flags)
                    learns = config.learn_phases and config.enable and config.parameters.valid
                    ends = bool(flags & (SYN | FIN | RST))
                    cases.append((data, config, ends or (learns and config.marks(tos))))
    for at, bit in ((12, 0), (13, 1), (14, 0), (14, 4), (23, 0), (23, 7)):
        for flags in (SYN, FIN, RST):
            spoilt = bytearray(frame(random_flow(), flags=flags))
            spoilt[at] ^= 1 << bit
            cases.append((bytes(spoilt), LEARNING, False))
    cases += [(udp(random.randbytes(64)), LEARNING, False) for _ in range(50)]
    random.shuffle(cases)
    await tb.run([(data, False, config) for data, config, _ in cases])
    for (data, config, expected), found in zip(cases, tb.shared, strict=True):
        assert found == expected, f"{data[:54].hex()}, {config}: {found}"


@TB.test()
async def reset_forgets_frames(tb):
    """Nothing is told of a frame that came before a reset."""
    header = int.from_bytes(frame(random_flow(), flags=SYN)[:HEADER_BYTES], "little")
    for delay in range(FlowSharing.LATENCY):
        await tb.cycle(frames_valid=1, frames_payload={"header": header, "config": bits(BASE)})
        for _ in range(delay):
            await tb.cycle()
        tb.now = 0
        await tb.reset()
        for _ in range(5):
            await tb.cycle()
