# SPDX-License-Identifier: BSD-2-Clause
"""The tag plane in simulation."""

from pathlib import Path

import pytest

from inceptionn.hdl.tag_plane import TagPlane
from inceptionn.sim.runner import run_bench


@pytest.mark.parametrize("lanes", [8, 16])
def test_bench(lanes: int) -> None:
    bench = Path(__file__).with_name("bench_tag_plane.py")
    run_bench(TagPlane(lanes=lanes), "tag_plane", bench, parameters={"lanes": lanes})
