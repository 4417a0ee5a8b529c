# SPDX-License-Identifier: BSD-2-Clause
"""Steps 4 to 16 of the verdict order (wire-format.md section 5): what both engines ask of the headers."""

from __future__ import annotations

from dataclasses import dataclass

from inceptionn import wire
from inceptionn.wire import Verdict

from .flows import Flow

ETHERNET_BYTES = 14
VLAN_BYTES = 4
IPV4_BYTES = 20
TCP_BYTES = 20
UDP_BYTES = 8


def be16(frame: bytes, at: int) -> int:
    """The big-endian 16-bit field at byte ``at``."""
    return frame[at] << 8 | frame[at + 1]


def be32(frame: bytes, at: int) -> int:
    """The big-endian 32-bit field at byte ``at``."""
    return be16(frame, at) << 16 | be16(frame, at + 2)


@dataclass(frozen=True)
class Headers:
    """The fields of an IPv4 TCP or UDP frame that the engines use. Offsets and lengths in bytes."""

    l3: int
    """Offset of the IPv4 header (L2 in the specification): 14, or 18 behind a VLAN tag."""
    total_length: int
    ip_checksum: int
    protocol: int
    flow: Flow
    sequence: int
    """TCP sequence number; 0 for UDP."""
    l4_bytes: int
    """Length of the TCP header with options, or 8."""
    checksum: int
    """The TCP or UDP checksum field."""
    syn: bool

    @property
    def l4(self) -> int:
        """Offset of the TCP or UDP header."""
        return self.l3 + IPV4_BYTES

    @property
    def payload(self) -> int:
        """Offset of the payload (H in the specification)."""
        return self.l4 + self.l4_bytes

    @property
    def payload_bytes(self) -> int:
        """Length of the payload that the IP total length announces."""
        return self.total_length - IPV4_BYTES - self.l4_bytes

    @property
    def end(self) -> int:
        """Length of the frame that the IP total length announces; padding follows it."""
        return self.l3 + self.total_length

    @property
    def checksum_at(self) -> int:
        """Offset of the TCP or UDP checksum field."""
        return self.l4 + (16 if self.protocol == wire.PROTOCOL_TCP else 6)


def _network_layer(frame: bytes) -> Verdict | int:
    """Steps 4 to 6: the offset of the IPv4 header, or why there is none."""
    if len(frame) < ETHERNET_BYTES:
        return Verdict.TRUNCATED
    l3 = ETHERNET_BYTES
    ethertype = be16(frame, 12)
    if ethertype == wire.ETHERTYPE_VLAN:
        l3 += VLAN_BYTES
        if len(frame) < l3:
            return Verdict.TRUNCATED
        ethertype = be16(frame, 16)
        if ethertype == wire.ETHERTYPE_VLAN:
            return Verdict.VLAN_STACK
    if ethertype == wire.ETHERTYPE_SERVICE_VLAN:
        return Verdict.VLAN_STACK
    if ethertype == wire.ETHERTYPE_IPV6:
        return Verdict.IPV6
    if ethertype != wire.ETHERTYPE_IPV4:
        return Verdict.NOT_IPV4
    return l3


def _internet_header(frame: bytes, l3: int, tos: int, tos_mask: int) -> Verdict | None:
    """Steps 7 to 12: why the IPv4 header rules the frame out."""
    if len(frame) < l3 + IPV4_BYTES:
        return Verdict.TRUNCATED
    if frame[l3] >> 4 != 4:
        return Verdict.NOT_IPV4
    if (frame[l3 + 1] ^ tos) & tos_mask:
        return Verdict.UNTAGGED
    if frame[l3] & 0xF != 5:
        return Verdict.IP_OPTIONS
    if be16(frame, l3 + 6) & 0x3FFF:  # more fragments, or a fragment offset
        return Verdict.FRAGMENT
    if frame[l3 + 9] not in (wire.PROTOCOL_TCP, wire.PROTOCOL_UDP):
        return Verdict.PROTOCOL
    return None


def parse(frame: bytes, tos: int, tos_mask: int, *, whole: bool) -> tuple[Verdict | None, Headers | None]:
    """Steps 4 to 16: the verdict that the headers alone give, if any, and the headers.

    The headers come for no verdict, ``SYN`` and ``NO_CHECKSUM``. ``whole`` (transmit) also asks that
    the frame reach its announced end; the receive engine, which cuts through, cannot know.
    """
    l3 = _network_layer(frame)
    if isinstance(l3, Verdict):
        return l3, None
    verdict = _internet_header(frame, l3, tos, tos_mask)
    if verdict is not None:
        return verdict, None

    tcp = frame[l3 + 9] == wire.PROTOCOL_TCP
    l4 = l3 + IPV4_BYTES
    if len(frame) < l4 + (TCP_BYTES if tcp else UDP_BYTES):
        return Verdict.TRUNCATED, None
    total_length = be16(frame, l3 + 2)
    l4_bytes = 4 * (frame[l4 + 12] >> 4) if tcp else UDP_BYTES
    if l4_bytes < (TCP_BYTES if tcp else UDP_BYTES) or total_length < IPV4_BYTES + l4_bytes:
        return Verdict.LENGTHS, None
    if not tcp and be16(frame, l4 + 4) != total_length - IPV4_BYTES:
        return Verdict.LENGTHS, None
    if whole and len(frame) < l3 + total_length:
        return Verdict.LENGTHS, None

    headers = Headers(
        l3=l3,
        total_length=total_length,
        ip_checksum=be16(frame, l3 + 10),
        protocol=frame[l3 + 9],
        flow=Flow(be32(frame, l3 + 12), be32(frame, l3 + 16), be16(frame, l4), be16(frame, l4 + 2)),
        sequence=be32(frame, l4 + 4) if tcp else 0,
        l4_bytes=l4_bytes,
        checksum=be16(frame, l4 + (16 if tcp else 6)),
        syn=tcp and bool(frame[l4 + 13] & 0x02),
    )
    if headers.syn:
        return Verdict.SYN, headers
    if not tcp and headers.checksum == 0:
        return Verdict.NO_CHECKSUM, headers
    return None, headers
