# SPDX-License-Identifier: BSD-2-Clause
"""The eight compression blocks and their shifter tree in simulation."""

from pathlib import Path

import pytest

from inceptionn.hdl.compression_unit import CompressionUnit
from inceptionn.sim.runner import run_bench


@pytest.mark.parametrize("lanes", [8, 16])
def test_bench(lanes: int) -> None:
    bench = Path(__file__).with_name("bench_compression_unit.py")
    run_bench(CompressionUnit(lanes=lanes), "compression_unit", bench, parameters={"lanes": lanes})
