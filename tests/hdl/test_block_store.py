# SPDX-License-Identifier: BSD-2-Clause
"""The block store in simulation."""

from pathlib import Path

from inceptionn.hdl.block_store import BlockStore
from inceptionn.sim.runner import run_bench


def test_bench() -> None:
    run_bench(BlockStore, "block_store", Path(__file__).with_name("bench_block_store.py"))
