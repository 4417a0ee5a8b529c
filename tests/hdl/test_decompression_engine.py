# SPDX-License-Identifier: BSD-2-Clause
"""The decompression engine in simulation."""

from pathlib import Path

from inceptionn.hdl.decompression_engine import DecompressionEngine
from inceptionn.sim.runner import run_bench


def test_bench() -> None:
    run_bench(
        DecompressionEngine, "decompression_engine", Path(__file__).with_name("bench_decompression_engine.py")
    )
