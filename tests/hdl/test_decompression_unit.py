# SPDX-License-Identifier: BSD-2-Clause
"""The eight decompression blocks in simulation."""

from pathlib import Path

from inceptionn.hdl.decompression_unit import DecompressionUnit
from inceptionn.sim.runner import run_bench


def test_bench() -> None:
    run_bench(
        DecompressionUnit, "decompression_unit", Path(__file__).with_name("bench_decompression_unit.py")
    )
