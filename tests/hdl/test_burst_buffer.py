# SPDX-License-Identifier: BSD-2-Clause
"""The burst buffer in simulation."""

from pathlib import Path

import pytest

from inceptionn.hdl.burst_buffer import BurstBuffer
from inceptionn.sim.runner import run_bench


@pytest.mark.parametrize("lanes", [8, 16])
def test_bench(lanes: int) -> None:
    bench = Path(__file__).with_name("bench_burst_buffer.py")
    run_bench(BurstBuffer(lanes=lanes), "burst_buffer", bench, parameters={"lanes": lanes})
