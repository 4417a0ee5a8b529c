# SPDX-License-Identifier: BSD-2-Clause
"""The compressor with its statistics, as the engine has it, in simulation."""

from pathlib import Path

import pytest

from inceptionn.hdl.compressor import Compressor
from inceptionn.sim.runner import run_bench


@pytest.mark.parametrize("lanes", [8, 16])
def test_bench(lanes: int) -> None:
    component = Compressor(statistics=True, lanes=lanes)
    bench = Path(__file__).with_name("bench_compressor.py")
    run_bench(component, "compressor", bench, parameters={"lanes": lanes})
