# SPDX-License-Identifier: BSD-2-Clause
"""The flow-phase table."""

import random
import re
from collections import defaultdict
from fractions import Fraction
from math import comb, factorial
from pathlib import Path

import numpy as np
import pytest

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
    low, high = folded[7:], folded[:9]
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
        assert 0 <= flow.slot < wire.FLOW_TABLE_SIZE // wire.FLOW_TABLE_WAYS


def test_slots_of_a_cluster_are_spread() -> None:
    """64 hosts of a subnet, a ring in both directions, a few ports each: few flows share a set."""
    slots = []
    for i in range(64):
        here, there = 0x0A000100 + i, 0x0A000100 + (i + 1) % 64
        slots += [Flow(here, there, 40000 + 3 * i, 5000).slot, Flow(there, here, 5000, 40000 + 3 * i).slot]
    assert len(set(slots)) > 0.8 * len(slots)


def test_table() -> None:
    """Against sets that are lists of flows, the one that was stored last at the end."""
    source = random.Random(2)
    table, model = FlowTable(), defaultdict[int, dict[Flow, int]](dict)
    assert len(table) == 0
    known = [random_flow(source) for _ in range(2500)]
    for _ in range(20000):
        flow = source.choice(known)
        held = model[flow.slot]
        assert table.phase(flow) == held.get(flow)
        match source.randrange(4):
            case 0 | 1:
                sequence = source.getrandbits(33)
                table.store(flow, sequence)
                if held.pop(flow, None) is None and len(held) == wire.FLOW_TABLE_WAYS:
                    del held[next(iter(held))]
                held[flow] = sequence % 4
            case 2:
                table.free(flow)
                held.pop(flow, None)
    assert len(table) == sum(map(len, model.values())) <= wire.FLOW_TABLE_SIZE


def chances(count: int) -> tuple[float, float]:
    """Return the chance that one of ``count`` flows has no entry, and their mean share, for a perfect hash.

    Of all ways to put flows into sets, those with one or two flows in each set that is taken lose none.
    """
    sets = wire.FLOW_TABLE_SIZE // wire.FLOW_TABLE_WAYS
    good = sum(
        Fraction(comb(sets, pairs) * comb(sets - pairs, count - 2 * pairs) * factorial(count), 2**pairs)
        for pairs in range(count // 2 + 1)
    )
    of = [comb(count, n) / sets**n * (1 - 1 / sets) ** (count - n) for n in range(3)]
    kept = sets * (of[1] + 2 * (1 - of[0] - of[1]))
    return float(1 - good / sets**count), 1 - kept / count


def drawn(count: int, accepted: float, peers: int) -> tuple[float, float]:
    """Return the same for a host's connections with ``peers`` others, by the real hash.

    A share of them is ``accepted`` at one port. The other end's port is one of Linux's 28,232 of short life.
    """
    source, trials = np.random.default_rng(3), 1000
    peer = 0x0A000002 + source.integers(0, peers, (trials, count))
    port = source.integers(32768, 61000, (trials, count))
    here = source.random((trials, count)) < accepted
    slots = wire.flow_index(0x0A000001, peer, np.where(here, 5000, port), np.where(here, port, 5000))
    lost = [np.maximum(np.bincount(row) - wire.FLOW_TABLE_WAYS, 0).sum() for row in slots]
    return float(np.mean(np.array(lost) > 0)), float(np.mean(lost)) / count


def test_chance_that_a_flow_has_no_entry() -> None:
    """The page's figures are a perfect hash's, and the real one is as good."""
    page = (Path(__file__).parents[2] / "docs/wire-format.md").read_text(encoding="utf-8")
    rows = re.findall(r"^ +(\d+) +([\d.]+) % +([\d.]+) %$", page, re.MULTILINE)
    assert [int(count) for count, *_ in rows] == [8, 64, 256]
    for count, *stated in rows:
        exact = chances(int(count))
        print(f"{count} flows: chance {exact[0]:.4%}, share {exact[1]:.4%}")
        for figure, value in zip(stated, exact, strict=True):
            half = 10.0 ** -len(figure.partition(".")[2]) / 2
            assert float(figure) == pytest.approx(100 * value, abs=half)
        for accepted, peers in ((0, 1), (1, 1), (0.5, 15), (1, 250)):
            found = drawn(int(count), accepted, peers)
            assert found[0] == pytest.approx(exact[0], abs=0.05)
            assert found[1] == pytest.approx(exact[1], abs=0.002)
