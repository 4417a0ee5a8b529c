# SPDX-License-Identifier: BSD-2-Clause
"""The tag plane in simulation."""

from pathlib import Path

from inceptionn.hdl.tag_plane import TagPlane
from inceptionn.sim.runner import run_bench


def test_bench() -> None:
    run_bench(TagPlane, "tag_plane", Path(__file__).with_name("bench_tag_plane.py"))
