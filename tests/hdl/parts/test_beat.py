# SPDX-License-Identifier: BSD-2-Clause
"""A beat's numbers."""

import pytest

from inceptionn.hdl.frame.header_fields import L4, TCP, UDP, VLAN
from inceptionn.hdl.parts.beat import HEADER_FIELDS, LEAST_HEADERS, Beat


@pytest.mark.parametrize(
    ("lanes", "numbers", "parsed", "overlaps"),
    [
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
