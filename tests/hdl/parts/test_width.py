# SPDX-License-Identifier: BSD-2-Clause
"""The numbers of an engine's width."""

import pytest

from inceptionn.hdl.frame.header_fields import L4, TCP, UDP, VLAN
from inceptionn.hdl.parts.width import HEADER_FIELDS, LEAST_HEADERS, Width


@pytest.mark.parametrize(
    ("lanes", "numbers", "parsed", "overlaps"),
    [
        (8, (32, 256, 16, 5, 1), 1, False),
        (16, (64, 512, 32, 6, 2), 0, True),
    ],
)
def test_numbers(lanes: int, numbers: tuple[int, ...], parsed: int, overlaps: bool) -> None:
    width = Width(lanes)
    assert (width.bytes, width.bits, width.words, width.place_bits, width.groups) == numbers
    assert width.parsed_beat == parsed
    assert width.headers_in_one_beat == (parsed == 0)
    assert width.payload_overlaps == overlaps
    assert width == Width(lanes)


def test_header_sizes_are_those_of_the_headers() -> None:
    assert VLAN.size + L4 + TCP.size == HEADER_FIELDS
    assert L4 + UDP.size == LEAST_HEADERS
