# SPDX-License-Identifier: BSD-2-Clause
"""A beat's numbers, and the components that need whole groups."""

from __future__ import annotations

import pytest

from inceptionn.hdl.catalogue import CATALOGUE
from inceptionn.hdl.frame.header_fields import L4, TCP, UDP, VLAN
from inceptionn.hdl.parts.beat import HEADER_FIELDS, LEAST_HEADERS, Beat
from inceptionn.hdl.verilog import to_rtlil

ANY_WIDTH = ("checksum", "output_queue")
"""Components that take beats of less than a group."""


@pytest.mark.parametrize(
    ("lanes", "numbers", "parsed", "overlaps"),
    [
        (1, (4, 32, 2, 2, 0), 14, False),
        (4, (16, 128, 8, 4, 0), 3, False),
        (8, (32, 256, 16, 5, 1), 1, False),
        (16, (64, 512, 32, 6, 2), 0, True),
    ],
)
def test_numbers(lanes: int, numbers: tuple[int, ...], parsed: int, overlaps: bool) -> None:
    beat = Beat(lanes)
    assert (beat.bytes, beat.bits, beat.words, beat.place_bits, beat.groups) == numbers
    assert beat.parsed_beat == parsed
    assert beat.headers_in_one_beat == (parsed == 0)
    assert beat.payload_overlaps == overlaps
    assert beat == Beat(lanes)


def test_header_sizes_are_those_of_the_headers() -> None:
    assert VLAN.size + L4 + TCP.size == HEADER_FIELDS
    assert L4 + UDP.size == LEAST_HEADERS


@pytest.mark.parametrize("lanes", [0, 3, 32, "8", True])
def test_other_widths_are_refused(lanes: object) -> None:
    with pytest.raises(ValueError, match=rf"lanes must be 1, 2, 4, 8 or 16, not {lanes!r}"):
        Beat(lanes)  # type: ignore[arg-type]


WITH_LANES = [name for name, entry in CATALOGUE.items() if "lanes" in entry.variants[-1]]


@pytest.mark.parametrize("name", sorted({*WITH_LANES, "standalone_compressor"} - {*ANY_WIDTH}))
def test_components_of_whole_groups_refuse_narrow_beats(name: str) -> None:
    entry = CATALOGUE[name]
    with pytest.raises(ValueError, match=r"^lanes must be 8 or 16, not 4$"):
        entry.factory(**{**entry.variants[0], "lanes": 4})


@pytest.mark.parametrize("name", ANY_WIDTH)
def test_parts_take_narrow_beats(name: str) -> None:
    entry = CATALOGUE[name]
    for lanes in (1, 2, 4):
        assert to_rtlil(entry.factory(**{**entry.variants[0], "lanes": lanes}), name)
