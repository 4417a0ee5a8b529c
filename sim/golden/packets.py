# SPDX-License-Identifier: BSD-2-Clause
"""TCP and UDP frames with right lengths and checksums, for tests and vectors.

Frames are bytes without the frame check sequence; addresses are 32-bit integers. A test builds a good frame
here and then changes the field that it tests.
"""

import struct
from typing import Any

from inceptionn import wire

from . import checksum

SOURCE = 0x0A000001
"""10.0.0.1"""
DESTINATION = 0x0A000002
MACS = bytes.fromhex("020000000002020000000001")
"""Destination and source MAC address, locally administered."""
ACK, RST, SYN, FIN = 0x10, 0x04, 0x02, 0x01
MINIMUM_FRAME = 60
"""Shortest Ethernet frame without the frame check sequence."""


def ethernet(payload: bytes, ethertype: int = wire.ETHERTYPE_IPV4, vlan: int | None = None) -> bytes:
    """Make a frame; ``vlan`` is the tag control information of an 802.1Q tag."""
    tag = b"" if vlan is None else struct.pack("!HH", wire.ETHERTYPE_VLAN, vlan)
    return MACS + tag + struct.pack("!H", ethertype) + payload


def ipv4(
    payload: bytes,
    protocol: int,
    *,
    tos: int = wire.DEFAULT_TOS,
    source: int = SOURCE,
    destination: int = DESTINATION,
    identification: int = 0,
    fragment: int = 0x4000,
    options: bytes = b"",
) -> bytes:
    """Make an IPv4 packet. ``fragment``: flags and fragment offset (default: don't fragment)."""
    words = 0x45 + len(options) // 4, tos, 20 + len(options) + len(payload), identification, fragment
    header = struct.pack("!BBHHHBBHII", *words, 64, protocol, 0, source, destination) + options
    value = 0xFFFF ^ checksum.fold(checksum.word_sum(header))
    return header[:10] + value.to_bytes(2, "big") + header[12:] + payload


def tcp(
    payload: bytes,
    *,
    sequence: int = 0,
    source_port: int = 40000,
    destination_port: int = 5000,
    flags: int = ACK,
    tcp_options: bytes = b"",
    vlan: int | None = None,
    padding: bytes = b"",
    **ip: Any,
) -> bytes:
    """Make a TCP frame. ``tcp_options`` is a multiple of 4 bytes, at most 40; ``ip`` as for :func:`ipv4`."""
    offset = (20 + len(tcp_options)) // 4
    header = struct.pack(
        "!HHIIBBHHH", source_port, destination_port, sequence & 0xFFFFFFFF, 0, offset << 4, flags, 512, 0, 0
    )
    segment = _with_checksum(header + tcp_options + payload, wire.PROTOCOL_TCP, 16, ip)
    return ethernet(ipv4(segment, wire.PROTOCOL_TCP, **ip), vlan=vlan) + padding


def udp(
    payload: bytes,
    *,
    source_port: int = 40000,
    destination_port: int = 5000,
    vlan: int | None = None,
    padding: bytes = b"",
    **ip: Any,
) -> bytes:
    """Make a UDP frame with a checksum; ``ip`` as for :func:`ipv4`."""
    header = struct.pack("!HHHH", source_port, destination_port, 8 + len(payload), 0)
    datagram = _with_checksum(header + payload, wire.PROTOCOL_UDP, 6, ip)
    return ethernet(ipv4(datagram, wire.PROTOCOL_UDP, **ip), vlan=vlan) + padding


def _with_checksum(segment: bytes, protocol: int, at: int, ip: dict[str, Any]) -> bytes:
    source, destination = ip.get("source", SOURCE), ip.get("destination", DESTINATION)
    pseudo_header = checksum.pseudo_header_sum(source, destination, protocol, len(segment))
    value = 0xFFFF ^ checksum.fold(pseudo_header + checksum.word_sum(segment))
    if value == 0 and protocol == wire.PROTOCOL_UDP:
        value = 0xFFFF
    return segment[:at] + value.to_bytes(2, "big") + segment[at + 2 :]


OPENING = tcp(b"", sequence=-1, flags=SYN)
"""The marked SYN of the flow of :func:`tcp`, by which sequence number 0 is on its grid."""
