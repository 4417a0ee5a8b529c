# SPDX-License-Identifier: BSD-2-Clause
"""The burst buffer in simulation."""

from pathlib import Path

from inceptionn.hdl.burst_buffer import BurstBuffer
from inceptionn.sim.runner import run_bench


def test_bench() -> None:
    run_bench(BurstBuffer, "burst_buffer", Path(__file__).with_name("bench_burst_buffer.py"))
