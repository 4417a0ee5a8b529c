# amaranth: UnusedElaboratable=no
# SPDX-License-Identifier: BSD-2-Clause
"""The frame counters in simulation."""

from __future__ import annotations

from pathlib import Path

import pytest

from inceptionn.hdl.counters import CounterRead, FrameCounters, FrameReport
from inceptionn.sim.runner import run_bench

BENCH = Path(__file__).with_name("bench_counters.py")


@pytest.mark.parametrize("direction", ["tx", "rx"])
def test_bench(direction: str) -> None:
    module = f"frame_counters_{direction}"
    run_bench(lambda: FrameCounters(direction), module, BENCH, parameters={"direction": direction})


def test_direction_is_checked() -> None:
    with pytest.raises(ValueError, match="direction must be one of tx, rx, not 'up'"):
        FrameCounters("up")
    assert FrameCounters("rx").direction == "rx"


def test_widths() -> None:
    assert FrameReport.as_shape().size == 5 + 17 + 17 + 4 * 12
    assert CounterRead() == CounterRead()
    assert repr(CounterRead()) == "CounterRead()"
