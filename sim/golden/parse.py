# SPDX-License-Identifier: BSD-2-Clause
"""Steps 4 to 16 of the verdict order (wire-format.md section 5): both engines' checks of the headers."""

from collections.abc import Collection
from dataclasses import dataclass

from inceptionn import wire
from inceptionn.wire import Verdict

from .flows import Flow

ETHERNET_BYTES = 14
VLAN_BYTES = 4
IPV4_BYTES = 20
TCP_BYTES = 20
UDP_BYTES = 8

# First and last bit of each field, counted as the diagrams of RFC 791, 9293 and 768 do: bit 0 is the highest
# bit of the header's first byte.
ETHERNET = {"ethertype": (96, 111)}
VLAN = {"ethertype": (16, 31)}
IPV4 = {
    "version": (0, 3),
    "ihl": (4, 7),
    "tos": (8, 15),
    "total_length": (16, 31),
    "fragment": (48, 63),
    "protocol": (72, 79),
    "checksum": (80, 95),
    "source": (96, 127),
    "destination": (128, 159),
}
TCP = {
    "source_port": (0, 15),
    "destination_port": (16, 31),
    "sequence": (32, 63),
    "data_offset": (96, 99),
    "rst": (109, 109),
    "syn": (110, 110),
    "fin": (111, 111),
    "checksum": (128, 143),
}
UDP = {"source_port": (0, 15), "destination_port": (16, 31), "length": (32, 47), "checksum": (48, 63)}
SHIM = {"magic": (0, 15), "version": (16, 23), "base": (24, 31), "length": (32, 47), "reserved": (48, 63)}


def read(frame: bytes, at: int, field: tuple[int, int]) -> int:
    """Read the value of a field of the header at byte ``at``."""
    first, last = field
    number = int.from_bytes(frame[at + first // 8 : at + last // 8 + 1], "big")
    return number >> (7 - last % 8) & ((1 << (last - first + 1)) - 1)


@dataclass(frozen=True)
class Headers:
    """The fields of an IPv4 TCP or UDP frame that the engines use. Offsets and lengths in bytes."""

    l3: int
    """Offset of the IPv4 header (L2 in the specification): 14, or 18 with a VLAN tag."""
    tos: int
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
    ends: bool
    """A TCP segment with FIN or RST."""

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
        return self.l4 + (TCP if self.protocol == wire.PROTOCOL_TCP else UDP)["checksum"][0] // 8


def _network_layer(frame: bytes) -> Verdict | int:
    """Do steps 4 to 6: return the offset of the IPv4 header, or the verdict if there is none."""
    if len(frame) < ETHERNET_BYTES:
        return Verdict.TRUNCATED
    l3 = ETHERNET_BYTES
    ethertype = read(frame, 0, ETHERNET["ethertype"])
    if ethertype == wire.ETHERTYPE_VLAN:
        l3 += VLAN_BYTES
        if len(frame) < l3:
            return Verdict.TRUNCATED
        ethertype = read(frame, ETHERNET_BYTES, VLAN["ethertype"])
        if ethertype == wire.ETHERTYPE_VLAN:
            return Verdict.VLAN_STACK
    if ethertype == wire.ETHERTYPE_SERVICE_VLAN:
        return Verdict.VLAN_STACK
    if ethertype == wire.ETHERTYPE_IPV6:
        return Verdict.IPV6
    if ethertype != wire.ETHERTYPE_IPV4:
        return Verdict.NOT_IPV4
    return l3


def _internet_header(frame: bytes, l3: int, tags: Collection[int], tos_mask: int) -> Verdict | None:
    """Do steps 7 to 12: return the verdict with which the IPv4 header rules the frame out, if any."""
    if len(frame) < l3 + IPV4_BYTES:
        return Verdict.TRUNCATED
    if read(frame, l3, IPV4["version"]) != 4:
        return Verdict.NOT_IPV4
    if all((read(frame, l3, IPV4["tos"]) ^ tos) & tos_mask for tos in tags):
        return Verdict.UNTAGGED
    if read(frame, l3, IPV4["ihl"]) != 5:
        return Verdict.IP_OPTIONS
    if read(frame, l3, IPV4["fragment"]) & 0x3FFF:  # more fragments, or a fragment offset
        return Verdict.FRAGMENT
    if read(frame, l3, IPV4["protocol"]) not in (wire.PROTOCOL_TCP, wire.PROTOCOL_UDP):
        return Verdict.PROTOCOL
    return None


def parse(
    frame: bytes, tags: Collection[int], tos_mask: int, *, whole: bool
) -> tuple[Verdict | None, Headers | None]:
    """Do steps 4 to 16: return the verdict that the headers alone give, if any, and the headers.

    ``tags`` are the ToS bytes of tagged frames. The headers are returned for no verdict, ``SYN`` and
    ``NO_CHECKSUM``. ``whole`` (transmit) also requires that the frame reach its announced end; the receive
    engine, which cuts through, cannot know.
    """
    l3 = _network_layer(frame)
    if isinstance(l3, Verdict):
        return l3, None
    verdict = _internet_header(frame, l3, tags, tos_mask)
    if verdict is not None:
        return verdict, None

    ip = {name: read(frame, l3, field) for name, field in IPV4.items()}
    tcp = ip["protocol"] == wire.PROTOCOL_TCP
    l4 = l3 + IPV4_BYTES
    if len(frame) < l4 + (TCP_BYTES if tcp else UDP_BYTES):
        return Verdict.TRUNCATED, None
    segment = {name: read(frame, l4, field) for name, field in (TCP if tcp else UDP).items()}
    total_length = ip["total_length"]
    l4_bytes = 4 * segment["data_offset"] if tcp else UDP_BYTES
    if l4_bytes < (TCP_BYTES if tcp else UDP_BYTES) or total_length < IPV4_BYTES + l4_bytes:
        return Verdict.LENGTHS, None
    if not tcp and segment["length"] != total_length - IPV4_BYTES:
        return Verdict.LENGTHS, None
    if whole and len(frame) < l3 + total_length:
        return Verdict.LENGTHS, None

    headers = Headers(
        l3=l3,
        tos=ip["tos"],
        total_length=total_length,
        ip_checksum=ip["checksum"],
        protocol=ip["protocol"],
        flow=Flow(ip["source"], ip["destination"], segment["source_port"], segment["destination_port"]),
        sequence=segment.get("sequence", 0),
        l4_bytes=l4_bytes,
        checksum=segment["checksum"],
        syn=bool(segment.get("syn", 0)),
        ends=bool(segment.get("fin", 0) or segment.get("rst", 0)),
    )
    if headers.syn:
        return Verdict.SYN, headers
    if not tcp and headers.checksum == 0:
        return Verdict.NO_CHECKSUM, headers
    return None, headers
