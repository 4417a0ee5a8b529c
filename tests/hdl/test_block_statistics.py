# SPDX-License-Identifier: BSD-2-Clause
"""The block statistics in simulation."""

from pathlib import Path

import pytest

from inceptionn.hdl.block_statistics import BlockStatistics
from inceptionn.sim.runner import run_bench


@pytest.mark.parametrize("lanes", [8, 16])
def test_bench(lanes: int) -> None:
    bench = Path(__file__).with_name("bench_block_statistics.py")
    run_bench(BlockStatistics(lanes=lanes), "block_statistics", bench, parameters={"lanes": lanes})
