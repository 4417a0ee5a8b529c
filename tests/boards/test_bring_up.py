# SPDX-License-Identifier: BSD-2-Clause
"""The bring-up design in simulation, and the Vivado project that is made of it."""

from __future__ import annotations

from pathlib import Path

from inceptionn.boards.bring_up.core import BringUpCore
from inceptionn.sim.runner import run_bench

HERE = Path(__file__).parent
DIVISOR = 4


def small_core() -> BringUpCore:
    """The design with a second of 12,000 cycles and a fast serial line."""
    return BringUpCore(1_000_000, baud=1_000_000 // DIVISOR, second=12_000, rate_window=1024)


def test_bench() -> None:
    run_bench(small_core, "bring_up", HERE / "bench_bring_up.py", parameters={"divisor": DIVISOR})
