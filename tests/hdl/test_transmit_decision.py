# SPDX-License-Identifier: BSD-2-Clause
"""The transmit side's decision in simulation."""

from pathlib import Path

import pytest

from inceptionn.hdl.transmit_decision import TransmitDecision
from inceptionn.sim.runner import run_bench


@pytest.mark.parametrize("lanes", [8, 16])
def test_bench(lanes: int) -> None:
    bench = Path(__file__).with_name("bench_transmit_decision.py")
    run_bench(TransmitDecision(lanes=lanes), "transmit_decision", bench, parameters={"lanes": lanes})
