# SPDX-License-Identifier: BSD-2-Clause
"""The compressor with its statistics, as the engine has it, in simulation."""

from pathlib import Path

from inceptionn.hdl.compressor import Compressor
from inceptionn.sim.runner import run_bench


def test_bench() -> None:
    bench = Path(__file__).with_name("bench_compressor.py")
    run_bench(Compressor(statistics=True), "compressor", bench)
