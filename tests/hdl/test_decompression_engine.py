# SPDX-License-Identifier: BSD-2-Clause
"""The decompression engine in simulation."""

from pathlib import Path

import pytest

from inceptionn.hdl.decompression_engine import DecompressionEngine
from inceptionn.sim.runner import run_bench


@pytest.mark.parametrize("lanes", [8, 16])
def test_bench(lanes: int) -> None:
    bench = Path(__file__).with_name("bench_decompression_engine.py")
    run_bench(DecompressionEngine(lanes=lanes), "decompression_engine", bench, parameters={"lanes": lanes})
