# SPDX-License-Identifier: BSD-2-Clause
"""The transmit side's assembler in simulation."""

from pathlib import Path

import pytest

from inceptionn.hdl.transmit_assembler import TransmitAssembler
from inceptionn.sim.runner import run_bench

BENCH = Path(__file__).with_name("bench_transmit_assembler.py")


@pytest.mark.parametrize("lanes", [8, 16])
def test_bench(lanes: int) -> None:
    parameters = {"ring_depth": 64, "lanes": lanes}
    run_bench(TransmitAssembler(**parameters), "transmit_assembler", BENCH, parameters=parameters)
