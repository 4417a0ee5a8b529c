# SPDX-License-Identifier: BSD-2-Clause
"""The shifter tree in simulation."""

from pathlib import Path

from inceptionn.hdl.shifter_tree import ShifterTree
from inceptionn.sim.runner import run_bench


def test_bench() -> None:
    run_bench(ShifterTree, "shifter_tree", Path(__file__).with_name("bench_shifter_tree.py"))
