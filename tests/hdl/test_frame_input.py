# SPDX-License-Identifier: BSD-2-Clause
"""The engines' input register in simulation."""

from pathlib import Path

import pytest

from inceptionn.hdl.frame_input import FrameInput
from inceptionn.sim.runner import run_bench

BENCH = Path(__file__).with_name("bench_frame_input.py")


@pytest.mark.parametrize(("pace", "data_bytes"), [(1, 32), (2, 32), (4, 32), (7, 32), (2, 64), (1, 128)])
def test_bench(pace: int, data_bytes: int) -> None:
    parameters = {"pace": pace, "data_bytes": data_bytes}
    run_bench(lambda: FrameInput(**parameters), "frame_input", BENCH, parameters=parameters)


def test_pace_is_checked() -> None:
    with pytest.raises(ValueError, match="pace must be 1 or more, not 0"):
        FrameInput(pace=0)
    assert FrameInput().pace == 1


def test_width_is_checked() -> None:
    with pytest.raises(ValueError, match="stream width must be a power of two of bytes, not 48"):
        FrameInput(data_bytes=48)
