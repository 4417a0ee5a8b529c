# SPDX-License-Identifier: BSD-2-Clause
"""Checksums verified by scapy, which shares no code with the engines or their golden model."""

import struct
from typing import Any

from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.l2 import Ether

IP_HEADER, HOST, WIRE = "IP header", "TCP/UDP at the host", "TCP/UDP on the wire, refused"
"""The properties that `check` verifies."""


_IP_HEADER_BYTES = 20


class ChecksumError(ValueError):
    """A checksum is not what it must be; the text says which."""


def _ip(frame: bytes) -> Any:
    """Return the IPv4 packet in a frame as scapy sees it, without Ethernet padding.

    None without a complete one.
    """
    try:
        packet = Ether(frame)
    except struct.error:  # it ends inside a header
        return None
    if IP not in packet or packet[IP].version != 4:
        return None
    ip = packet[IP]
    start = len(frame) - len(ip.original)
    if ip.len is None or not _IP_HEADER_BYTES <= 4 * ip.ihl <= ip.len <= len(frame) - start:
        return None
    return IP(frame[start : start + ip.len])


def _layer(ip: Any) -> Any:
    """Return the TCP or UDP layer of a packet that is not a fragment, or None."""
    if ip.frag or ip.flags.MF:
        return None
    return ip[TCP] if TCP in ip else ip[UDP] if UDP in ip else None


def payload_offset(frame: bytes) -> int:
    """Return the offset of a frame's TCP or UDP payload."""
    packet = Ether(frame)
    ip = packet[IP]
    header = 4 * packet[TCP].dataofs if TCP in packet else 8
    return len(frame) - len(ip.original) + 4 * int(ip.ihl) + header


def valid(frame: bytes) -> tuple[bool | None, bool | None]:
    """Tell whether the IP header checksum, and the TCP or UDP checksum, are right.

    None where there is none.
    """
    ip = _ip(frame)
    if ip is None:
        return None, None
    again = ip.copy()
    del again.chksum
    header = bytes(again)[: 4 * ip.ihl] == bytes(ip)[: 4 * ip.ihl]
    layer = _layer(ip)
    if layer is None or (UDP in ip and layer.chksum == 0):
        return header, None
    again = ip.copy()
    del _layer(again).chksum
    return header, bytes(again) == bytes(ip)


def check(sent: bytes, wire: bytes, host: bytes, compressed: bool) -> list[str]:
    """Name the checksums on one frame's path that were right, out of `IP_HEADER`, `HOST`, `WIRE`.

    A checksum that was right when the frame was sent must be right at every place. The exception is a
    compressed frame on the wire, which no host may accept: its TCP or UDP checksum is already the restored
    packet's. Raises `ChecksumError`.
    """
    before, on_wire, after = valid(sent), valid(wire), valid(host)
    verified = []
    if before[0]:
        if not on_wire[0] or not after[0]:
            raise ChecksumError(f"IP header checksum wrong {'at the host' if on_wire[0] else 'on the wire'}")
        verified += [IP_HEADER, IP_HEADER]
    if before[1]:
        if not after[1]:
            raise ChecksumError("TCP or UDP checksum wrong at the host")
        verified.append(HOST)
    if compressed:
        if on_wire[1]:
            raise ChecksumError("a host without an engine would accept the compressed frame")
        verified.append(WIRE)
    return verified
