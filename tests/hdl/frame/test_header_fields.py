# SPDX-License-Identifier: BSD-2-Clause
"""The table of header fields, against the golden model's own numbers."""

import pytest
from amaranth.hdl import Const

from inceptionn.hdl.frame import header_fields
from inceptionn.sim.golden import parse
from inceptionn.wire import SHIM_BYTES

HEADERS = {name: getattr(parse, f"{name}_BYTES") for name in ("ETHERNET", "VLAN", "IPV4", "TCP", "UDP")}
HEADERS["SHIM"] = SHIM_BYTES
"""Names of the tables on both sides, and the header's bytes in the golden model."""


@pytest.mark.parametrize("name", HEADERS)
def test_numbers(name: str) -> None:
    """Size of the header, names of its fields, and first and last bit of each."""
    header = getattr(header_fields, name)

    def bits(field: header_fields.Field) -> tuple[int, int]:
        """First and last bit, bit 0 the highest of the header's first byte."""
        last = 8 * field.end - 1 - field.bit
        return last - field.width + 1, last

    assert header.size == HEADERS[name]
    assert {field: bits(place) for field, place in header.items()} == getattr(parse, name)


@pytest.mark.parametrize("name", HEADERS)
@pytest.mark.parametrize("at", [0, 3])
def test_read(name: str, at: int) -> None:
    """Both sides read the same number from the same bytes."""
    header = getattr(header_fields, name)
    data = bytes(37 * i + 11 & 0xFF for i in range(at + header.size))
    value = Const(int.from_bytes(data, "little"), 8 * len(data))
    for field, bits in getattr(parse, name).items():
        assert Const.cast(header.read(value, field, at)).value == parse.read(data, at, bits), field
