# SPDX-License-Identifier: BSD-2-Clause
"""The receive side's decision in simulation."""

from pathlib import Path

from inceptionn.hdl.receive_decision import ReceiveDecision
from inceptionn.sim.runner import run_bench


def test_bench() -> None:
    run_bench(ReceiveDecision, "receive_decision", Path(__file__).with_name("bench_receive_decision.py"))
