# SPDX-License-Identifier: BSD-2-Clause
"""scapy as the referee of frames: it parses and sums them on its own."""

import pytest
from scapy.layers.inet import IP, TCP, UDP, in4_chksum
from scapy.layers.l2 import Ether


class Referee:
    """The checks of the hosts' network stacks and of the routers between them on a frame."""

    def ip(self, frame: bytes) -> IP:
        """Return the IPv4 layer as scapy dissects it."""
        return Ether(frame)[IP]

    def router_accepts(self, frame: bytes) -> bool:
        """Whether the IPv4 header checksum is right and the total length fits the frame."""
        packet = self.ip(frame)
        expected = packet.copy()
        del expected.chksum
        return packet.chksum == IP(bytes(expected)).chksum and packet.len <= len(bytes(packet.original))

    def host_accepts(self, frame: bytes) -> bool:
        """Whether the TCP or UDP checksum over the packet as it stands is right."""
        packet = self.ip(frame)
        segment = packet.original[20 : packet.len]
        return in4_chksum(packet.proto, packet, segment) == 0

    def segment(self, frame: bytes) -> TCP | UDP:
        """Return the TCP or UDP layer."""
        packet = self.ip(frame)
        return packet[TCP] if packet.proto == 6 else packet[UDP]


@pytest.fixture(scope="session")
def referee() -> Referee:
    return Referee()
