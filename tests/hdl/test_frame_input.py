# SPDX-License-Identifier: BSD-2-Clause
"""The engines' input register in simulation."""

from pathlib import Path

import pytest

from inceptionn.hdl.frame_input import FrameInput
from inceptionn.sim.runner import run_bench

BENCH = Path(__file__).with_name("bench_frame_input.py")


@pytest.mark.parametrize("pace", [1, 2, 4, 7])
def test_bench(pace: int) -> None:
    run_bench(lambda: FrameInput(pace=pace), "frame_input", BENCH, parameters={"pace": pace})


def test_pace_is_checked() -> None:
    with pytest.raises(ValueError, match="pace must be 1 or more, not 0"):
        FrameInput(pace=0)
    assert FrameInput().pace == 1
