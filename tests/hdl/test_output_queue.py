# SPDX-License-Identifier: BSD-2-Clause
"""The output queue in simulation."""

from pathlib import Path

import pytest

from inceptionn.hdl.output_queue import OutputQueue
from inceptionn.sim.runner import run_bench


@pytest.mark.parametrize("lanes", [8, 16])
def test_bench(lanes: int) -> None:
    bench = Path(__file__).with_name("bench_output_queue.py")
    parameters = {"slack": 11, "lanes": lanes}
    run_bench(OutputQueue(slack=11, lanes=lanes), "output_queue", bench, parameters=parameters)
