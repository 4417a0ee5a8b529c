# SPDX-License-Identifier: BSD-2-Clause
"""The block statistics in simulation."""

from pathlib import Path

from inceptionn.hdl.block_statistics import BlockStatistics
from inceptionn.sim.runner import run_bench


def test_bench() -> None:
    run_bench(BlockStatistics, "block_statistics", Path(__file__).with_name("bench_block_statistics.py"))
