# SPDX-License-Identifier: BSD-2-Clause
"""The two memories in simulation, and what they refuse."""

from __future__ import annotations

from pathlib import Path

import pytest

from inceptionn.hdl.memory import BlockRam, LutRam
from inceptionn.sim.runner import run_bench

BENCH = Path(__file__).with_name("bench_memory.py")


@pytest.mark.parametrize(("memory", "width", "depth"), [(BlockRam, 36, 64), (LutRam, 19, 32)])
def test_bench(memory: type[BlockRam], width: int, depth: int) -> None:
    numbers = {"width": width, "depth": depth, "latency": memory.LATENCY}
    run_bench(memory(width, depth), f"{memory.__name__.lower()}", BENCH, parameters=numbers)


@pytest.mark.parametrize("memory", [BlockRam, LutRam])
@pytest.mark.parametrize(("width", "depth"), [(0, 16), (8, 0), (8, 1), (8, 12), (-1, 16)])
def test_refused(memory: type[BlockRam], width: int, depth: int) -> None:
    with pytest.raises(ValueError, match=rf"power-of-two depth, not \({width}, {depth}\)$"):
        memory(width, depth)
