# SPDX-License-Identifier: BSD-2-Clause
"""The transmit side's assembler in simulation."""

from pathlib import Path

from inceptionn.hdl.transmit_assembler import TransmitAssembler
from inceptionn.sim.runner import run_bench

BENCH = Path(__file__).with_name("bench_transmit_assembler.py")


def test_bench() -> None:
    depth = 64
    run_bench(lambda: TransmitAssembler(depth), "transmit_assembler", BENCH, parameters={"ring_depth": depth})
