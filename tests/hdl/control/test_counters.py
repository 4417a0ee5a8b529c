# amaranth: UnusedElaboratable=no
# SPDX-License-Identifier: BSD-2-Clause
"""The frame counters in simulation."""

import pytest

from inceptionn.hdl.codec.shape import EngineShape
from inceptionn.hdl.control.counters import CounterRead, FrameCounters, frame_report


def test_direction_is_checked() -> None:
    with pytest.raises(ValueError, match="direction must be one of tx, rx, not 'up'"):
        FrameCounters("up")
    assert FrameCounters("rx").direction == "rx"


def test_widths() -> None:
    assert frame_report().size == 5 + 17 + 17 + 4 * 12
    assert frame_report(EngineShape.of(codec="planes")).size == 5 + 17 + 17 + 16 * 9 + 12
    assert CounterRead() == CounterRead()
    assert repr(CounterRead()) == "CounterRead()"
