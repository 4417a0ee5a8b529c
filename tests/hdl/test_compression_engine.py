# SPDX-License-Identifier: BSD-2-Clause
"""The compression engine in simulation."""

from pathlib import Path

import pytest

from inceptionn.hdl.compression_engine import CompressionEngine
from inceptionn.sim.runner import run_bench


@pytest.mark.parametrize("lanes", [8, 16])
def test_bench(lanes: int) -> None:
    bench = Path(__file__).with_name("bench_compression_engine.py")
    run_bench(CompressionEngine(lanes=lanes), "compression_engine", bench, parameters={"lanes": lanes})
