# amaranth: UnusedElaboratable=no
# SPDX-License-Identifier: BSD-2-Clause
"""The widths of what the counters are told."""

from inceptionn.hdl.codec.shape import EngineShape
from inceptionn.hdl.control.counters import CounterRead, frame_report


def test_widths() -> None:
    assert frame_report().size == 5 + 17 + 17 + 4 * 12
    assert frame_report(EngineShape.of(codec="planes")).size == 5 + 17 + 17 + 16 * 9 + 12
    assert CounterRead() == CounterRead()
    assert repr(CounterRead()) == "CounterRead()"
