# SPDX-License-Identifier: BSD-2-Clause
"""The paper's compression block in simulation."""

from pathlib import Path

from inceptionn.hdl.compression_block import CompressionBlock
from inceptionn.sim.runner import run_bench


def test_bench() -> None:
    run_bench(CompressionBlock, "compression_block", Path(__file__).with_name("bench_compression_block.py"))
