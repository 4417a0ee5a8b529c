# SPDX-License-Identifier: BSD-2-Clause
"""The eight compression blocks and their shifter tree in simulation."""

from pathlib import Path

from inceptionn.hdl.compression_unit import CompressionUnit
from inceptionn.sim.runner import run_bench


def test_bench() -> None:
    run_bench(CompressionUnit, "compression_unit", Path(__file__).with_name("bench_compression_unit.py"))
