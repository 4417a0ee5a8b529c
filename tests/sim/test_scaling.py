# SPDX-License-Identifier: BSD-2-Clause
"""What clock a link asks for, by hand; and the command's errors."""

import pytest
from rich.text import Text

from inceptionn.sim.scaling import (
    FRAMES,
    KINDS,
    Pace,
    carried_gbit,
    clock_mhz,
    frames_per_second,
    links_table,
    run_frames,
    slowest,
)
from inceptionn.wire import DEFAULT_TOS


def test_frames_per_second() -> None:
    # The numbers that every 10G tester prints: 64-byte frames, and 1518-byte ones, with check sequence.
    assert frames_per_second(10, 60) == pytest.approx(14_880_952, abs=1)
    assert frames_per_second(10, 1514) == pytest.approx(812_744, abs=1)


def test_clock() -> None:
    # 1514 bytes are 48 bursts: at 156.25 MHz x 256 bits (40 Gbit/s) there is a little over for the gaps.
    assert clock_mhz(40, 1514, 48) == pytest.approx(156.05, abs=0.01)
    assert clock_mhz(100, 1514, 24) == pytest.approx(195.06, abs=0.01)
    assert carried_gbit(156.05, 1514, 48) == pytest.approx(40, abs=0.01)


def test_the_slowest_kind_counts() -> None:
    paces = [
        Pace(2, 8, "transmit", kind, 1514, cycles) for kind, cycles in zip(KINDS, (24.0, 25.0), strict=True)
    ]
    paces += [Pace(1, 8, "transmit", "tagged", 1514, 48.0), Pace(2, 8, "receive", "tagged", 9014, 141.0)]
    paces += [Pace(2, 16, "transmit", "tagged", 1514, 26.0)]
    assert slowest(paces, (2, 8), 1514) == paces[1]
    assert paces[0].beats_per_cycle == 1.0
    assert paces[1].beats_per_cycle == 24 / 25
    assert paces[-1].beats_per_cycle == 12 / 26


def test_table() -> None:
    paces = [
        Pace(1, 8, "transmit", "tagged", size, cycles)
        for size, cycles in zip(FRAMES, (4, 48, 282), strict=True)
    ]
    table = links_table(paces, 250.0)
    assert list(table.headings) == ["Gbit/s", "1: 60 B", "1: 1514 B", "1: 9014 B"]
    assert [(str(cells[2]), cells[2].style) for cells, _ in table.rows if isinstance(cells[2], Text)] == [
        ("4", "green"), ("39", "green"), ("98", "green"), ("156", "green"), ("390", "red"), ("780", "red"),
        ("1560", "red"),
    ]  # fmt: skip


def test_sizes_by_name() -> None:
    paces = [
        Pace(*size, "receive", "tagged", length, 20.0) for size in ((1, 16), (1, 8)) for length in FRAMES
    ]
    heads = links_table(paces, 250.0).headings
    assert heads[1::3] == ("1: 60 B", "1 x 16: 60 B")


def test_run_is_one_flow_on_its_grid() -> None:
    frames = run_frames(1514, DEFAULT_TOS, 240)
    assert {len(frame) for frame in frames} == {1514}
    sequences = [int.from_bytes(frame[38:42], "big") for frame in frames]
    assert sequences == [1460 * i for i in range(len(frames))]
