# SPDX-License-Identifier: BSD-2-Clause
"""The transmit side's decision in simulation."""

from pathlib import Path

from inceptionn.hdl.transmit_decision import TransmitDecision
from inceptionn.sim.runner import run_bench


def test_bench() -> None:
    run_bench(TransmitDecision, "transmit_decision", Path(__file__).with_name("bench_transmit_decision.py"))
