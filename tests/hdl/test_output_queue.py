# SPDX-License-Identifier: BSD-2-Clause
"""The output queue in simulation."""

from pathlib import Path

from inceptionn.hdl.output_queue import OutputQueue
from inceptionn.sim.runner import run_bench


def test_bench() -> None:
    bench = Path(__file__).with_name("bench_output_queue.py")
    run_bench(OutputQueue(slack=11), "output_queue", bench, parameters={"slack": 11})
