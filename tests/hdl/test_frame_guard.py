# SPDX-License-Identifier: BSD-2-Clause
"""The frame guard in simulation."""

from __future__ import annotations

from pathlib import Path

from inceptionn.hdl.frame_guard import FrameGuard
from inceptionn.sim.runner import run_bench

BENCH = Path(__file__).with_name("bench_frame_guard.py")


def test_bench() -> None:
    run_bench(FrameGuard, "frame_guard", BENCH)
