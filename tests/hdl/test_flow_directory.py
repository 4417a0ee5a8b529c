# SPDX-License-Identifier: BSD-2-Clause
"""The directory of flows in simulation."""

from pathlib import Path

from inceptionn.hdl.flow_directory import FlowDirectory
from inceptionn.sim.runner import run_bench


def test_bench() -> None:
    run_bench(FlowDirectory, "flow_directory", Path(__file__).with_name("bench_flow_directory.py"))
