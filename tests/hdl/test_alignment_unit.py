# SPDX-License-Identifier: BSD-2-Clause
"""The alignment unit in simulation."""

from pathlib import Path

from inceptionn.hdl.alignment_unit import AlignmentUnit
from inceptionn.sim.runner import run_bench


def test_bench() -> None:
    run_bench(AlignmentUnit, "alignment_unit", Path(__file__).with_name("bench_alignment_unit.py"))
