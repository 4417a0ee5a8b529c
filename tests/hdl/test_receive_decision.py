# SPDX-License-Identifier: BSD-2-Clause
"""The receive side's decision in simulation."""

from pathlib import Path

import pytest

from inceptionn.hdl.receive_decision import ReceiveDecision
from inceptionn.sim.runner import run_bench


@pytest.mark.parametrize("lanes", [8, 16])
def test_bench(lanes: int) -> None:
    bench = Path(__file__).with_name("bench_receive_decision.py")
    run_bench(ReceiveDecision(lanes=lanes), "receive_decision", bench, parameters={"lanes": lanes})
