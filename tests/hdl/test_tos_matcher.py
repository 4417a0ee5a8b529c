# SPDX-License-Identifier: BSD-2-Clause
"""The ToS matcher in simulation."""

from pathlib import Path

from inceptionn.hdl.tos_matcher import TosMatcher
from inceptionn.sim.runner import run_bench


def test_bench() -> None:
    run_bench(TosMatcher, "tos_matcher", Path(__file__).with_name("bench_tos_matcher.py"))
