# SPDX-License-Identifier: BSD-2-Clause
"""The walk along a header in simulation, and the words that are patched."""

import pytest
from amaranth.hdl import Const, Signal

from inceptionn.hdl.frame.header_walk import HeaderMarks, patched_word
from inceptionn.hdl.parts.width import Width

# Byte in the frame without VLAN tag, counted by hand: Ethernet header 14, IPv4 header 20 bytes.
PLACES = {
    "total_length": 14 + 2,
    "ip_checksum": 14 + 10,
    "udp_length": 34 + 4,
    "udp_checksum": 34 + 6,
    "tcp_checksum": 34 + 16,
}


@pytest.mark.parametrize("lanes", [8, 16])
@pytest.mark.parametrize("name", PLACES)
def test_place_of_field(name: str, lanes: int) -> None:
    """A field is patched in one word, two words after that with a VLAN tag, and nowhere else."""
    marks = Signal(HeaderMarks)
    fields = {name: Signal(16)}
    words = range(2 * lanes)
    width = Width(lanes)
    hits = [word for word in words if not isinstance(patched_word(marks, word, fields, width)[0], Const)]
    first = PLACES[name] // 2 % len(words)
    assert hits == [first, first + 2]
