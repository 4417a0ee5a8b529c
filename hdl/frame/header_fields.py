# SPDX-License-Identifier: BSD-2-Clause
"""The header fields that the engines read or patch: one table per header, named as in docs/wire-format.md.

Sources: IEEE 802.3 and 802.1Q, RFC 791 (IPv4), RFC 9293 (TCP), RFC 768 (UDP), docs/wire-format.md section 3
(shim).
"""

from typing import NamedTuple

from amaranth.hdl import Cat, Value


class Field(NamedTuple):
    """The place of a field in its header."""

    byte: int
    """Offset of its first byte."""
    width: int
    """In bits. A field of more than 8 bits is a whole number of bytes, big-endian."""
    bit: int = 0
    """Lowest bit of the byte, 0 to 7; other than 0 only in a field that shares its byte."""

    @property
    def end(self) -> int:
        """Offset of the byte after the field."""
        return self.byte + -(-self.width // 8)


class Header(dict[str, Field]):
    """The fields of a header by name.

    Parameters
    ----------
    size : :class:`int`
        Bytes of the header without options.
    fields : :class:`Field`
    """

    def __init__(self, size: int, **fields: Field):
        super().__init__(fields)
        self.size = size

    def read(self, data: Value, name: str, at: int = 0) -> Value:
        """Read the field's value in host order.

        ``data`` has the header at byte ``at``, first byte lowest.
        """
        field = self[name]
        low = 8 * (at + field.byte) + field.bit
        if field.width <= 8:
            return data[low : low + field.width]
        return Cat(data[i : i + 8] for i in reversed(range(low, low + field.width, 8)))


ETHERNET = Header(14, ethertype=Field(12, 16))
VLAN = Header(4, ethertype=Field(2, 16))
"""The fields that a tag inserts after the first type field."""
IPV4 = Header(
    20,
    ihl=Field(0, 4),
    version=Field(0, 4, bit=4),
    tos=Field(1, 8),
    total_length=Field(2, 16),
    fragment=Field(6, 16),  # flags and fragment offset
    protocol=Field(9, 8),
    checksum=Field(10, 16),
    source=Field(12, 32),
    destination=Field(16, 32),
)
TCP = Header(
    20,
    source_port=Field(0, 16),
    destination_port=Field(2, 16),
    sequence=Field(4, 32),
    data_offset=Field(12, 4, bit=4),
    fin=Field(13, 1),
    syn=Field(13, 1, bit=1),
    rst=Field(13, 1, bit=2),
    checksum=Field(16, 16),
)
"""The ports lie in the same bytes as UDP's."""
UDP = Header(
    8,
    source_port=Field(0, 16),
    destination_port=Field(2, 16),
    length=Field(4, 16),
    checksum=Field(6, 16),
)
SHIM = Header(
    8,
    magic=Field(0, 16),
    version=Field(2, 8),
    base=Field(3, 8),  # B of the paper's codec, E0 of planes
    length=Field(4, 16),
    reserved=Field(6, 16),
)

L3 = ETHERNET.size
"""Offset of the IPv4 header in a frame without VLAN tag."""
L4 = L3 + IPV4.size
"""Offset of the TCP or UDP header in a frame without VLAN tag."""
MAX_TCP_BYTES = 60
"""TCP header with the most options."""
