# SPDX-License-Identifier: BSD-2-Clause
"""The eight decompression blocks in simulation."""

from pathlib import Path

import pytest

from inceptionn.hdl.decompression_unit import DecompressionUnit
from inceptionn.sim.runner import run_bench


@pytest.mark.parametrize("lanes", [8, 16])
def test_bench(lanes: int) -> None:
    bench = Path(__file__).with_name("bench_decompression_unit.py")
    run_bench(DecompressionUnit(lanes=lanes), "decompression_unit", bench, parameters={"lanes": lanes})
