# SPDX-License-Identifier: BSD-2-Clause
"""The compression engine in simulation."""

from pathlib import Path

from inceptionn.hdl.compression_engine import CompressionEngine
from inceptionn.sim.runner import run_bench


def test_bench() -> None:
    run_bench(
        CompressionEngine, "compression_engine", Path(__file__).with_name("bench_compression_engine.py")
    )
