# SPDX-License-Identifier: BSD-2-Clause
"""The receive side's assembler in simulation."""

from pathlib import Path

import pytest

from inceptionn.hdl.receive_assembler import ReceiveAssembler
from inceptionn.sim.runner import run_bench


@pytest.mark.parametrize("lanes", [8, 16])
def test_bench(lanes: int) -> None:
    bench = Path(__file__).with_name("bench_receive_assembler.py")
    run_bench(ReceiveAssembler(lanes=lanes), "receive_assembler", bench, parameters={"lanes": lanes})
