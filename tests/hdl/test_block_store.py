# SPDX-License-Identifier: BSD-2-Clause
"""The block store in simulation."""

from pathlib import Path

import pytest

from inceptionn.hdl.block_store import BlockStore
from inceptionn.sim.runner import run_bench


@pytest.mark.parametrize("lanes", [8, 16])
def test_bench(lanes: int) -> None:
    bench = Path(__file__).with_name("bench_block_store.py")
    run_bench(BlockStore(lanes=lanes), "block_store", bench, parameters={"lanes": lanes})
