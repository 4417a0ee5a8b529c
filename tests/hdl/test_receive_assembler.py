# SPDX-License-Identifier: BSD-2-Clause
"""The receive side's assembler in simulation."""

from pathlib import Path

from inceptionn.hdl.receive_assembler import ReceiveAssembler
from inceptionn.sim.runner import run_bench


def test_bench() -> None:
    run_bench(ReceiveAssembler, "receive_assembler", Path(__file__).with_name("bench_receive_assembler.py"))
