# SPDX-License-Identifier: BSD-2-Clause
"""The flow-phase table."""

import random

from inceptionn import wire
from inceptionn.sim.golden import Flow, FlowTable


def hashed(flow: Flow) -> int:
    """Compute the hash of wire-format.md section 7 on strings of bits."""

    def half(word: int, rotation: int) -> str:
        bits = f"{word:016b}"
        return bits[rotation:] + bits[:rotation]

    halves = [
        half(flow.source & 0xFFFF, 0),
        half(flow.source >> 16, 3),
        half(flow.destination & 0xFFFF, 5),
        half(flow.destination >> 16, 7),
        half(flow.source_port, 0),
        half(flow.destination_port, 9),
    ]
    folded = "".join(str(sum(int(bits[i]) for bits in halves) % 2) for i in range(16))
    low, high = folded[6:], folded[:6].zfill(10)
    return int("".join(str((int(a) + int(b)) % 2) for a, b in zip(low, high, strict=True)), 2)


def random_flow(source: random.Random) -> Flow:
    return Flow(
        source.getrandbits(32), source.getrandbits(32), source.getrandbits(16), source.getrandbits(16)
    )


def test_slot() -> None:
    source = random.Random(1)
    flows = [random_flow(source) for _ in range(500)] + [Flow(0, 0, 0, 0), Flow(2**32 - 1, 0, 65535, 1)]
    for flow in flows:
        assert flow.slot == hashed(flow)
        assert 0 <= flow.slot < wire.FLOW_TABLE_SIZE


def test_slots_of_a_cluster_are_spread() -> None:
    """64 hosts of a subnet, a ring in both directions, a few ports each: few flows share a slot."""
    slots = []
    for i in range(64):
        here, there = 0x0A000100 + i, 0x0A000100 + (i + 1) % 64
        slots += [Flow(here, there, 40000 + 3 * i, 5000).slot, Flow(there, here, 5000, 40000 + 3 * i).slot]
    assert len(set(slots)) > 0.8 * len(slots)


def test_table() -> None:
    source = random.Random(2)
    table, model = FlowTable(), {}
    assert len(table) == 0
    known = [random_flow(source) for _ in range(3000)]
    for _ in range(20000):
        flow = source.choice(known)
        held = model.get(flow.slot)
        assert table.phase(flow) == (held[1] if held and held[0] == flow else None)
        if source.getrandbits(1):
            sequence = source.getrandbits(33)
            table.learn(flow, sequence)
            model[flow.slot] = (flow, sequence % 4)
    assert len(table) == len(model) <= wire.FLOW_TABLE_SIZE
