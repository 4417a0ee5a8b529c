# SPDX-License-Identifier: BSD-2-Clause
"""The shifter tree in simulation."""

from pathlib import Path

import pytest

from inceptionn.hdl.shifter_tree import ShifterTree
from inceptionn.sim.runner import run_bench


@pytest.mark.parametrize("lanes", [8, 16])
def test_bench(lanes: int) -> None:
    bench = Path(__file__).with_name("bench_shifter_tree.py")
    run_bench(ShifterTree(lanes=lanes), "shifter_tree", bench, parameters={"lanes": lanes})
