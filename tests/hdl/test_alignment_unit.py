# SPDX-License-Identifier: BSD-2-Clause
"""The alignment unit in simulation."""

from pathlib import Path

import pytest

from inceptionn.hdl.alignment_unit import AlignmentUnit
from inceptionn.sim.runner import run_bench


@pytest.mark.parametrize("lanes", [8, 16])
def test_bench(lanes: int) -> None:
    bench = Path(__file__).with_name("bench_alignment_unit.py")
    run_bench(AlignmentUnit(lanes=lanes), "alignment_unit", bench, parameters={"lanes": lanes})
