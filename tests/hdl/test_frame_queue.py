# SPDX-License-Identifier: BSD-2-Clause
"""The queue of whole frames in simulation, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from inceptionn.hdl.frame_queue import FrameQueue
from inceptionn.sim.runner import run_bench

BENCH = Path(__file__).with_name("bench_frame_queue.py")


@pytest.mark.parametrize(("drop_bad", "lossy"), [(False, False), (True, True)])
def test_bench(drop_bad: bool, lossy: bool) -> None:
    queue = FrameQueue(8, depth=32, drop_bad=drop_bad, lossy=lossy, word_width=8)
    parameters = {"bytes": 8, "depth": 32, "drop_bad": drop_bad, "lossy": lossy}
    run_bench(queue, "frame_queue", BENCH, parameters=parameters)


@pytest.mark.parametrize("depth", [0, 4, 48])
def test_depth_refused(depth: int) -> None:
    with pytest.raises(ValueError, match=rf"power of two of at least 8, not {depth}$"):
        FrameQueue(8, depth=depth)
