# SPDX-License-Identifier: BSD-2-Clause
"""Frames for every verdict of the transmit engine."""

from dataclasses import replace

from inceptionn.wire import Verdict as V

from .. import packets
from ..flows import Flow
from ..frame import EngineConfig
from ..packets import DESTINATION, SOURCE, SYN, ethernet, ipv4, tcp, udp
from ..values import payload
from .case import GRADIENTS, IP, TCP, TIMESTAMP, Case, CodecCases, Sequence, patched
from .checksums import ambiguous, udp_to_zero


def headers(config: EngineConfig) -> Sequence:
    """Cover every decision from the headers, in the order of the steps."""
    good, datagram = tcp(GRADIENTS), udp(GRADIENTS)
    options = ethernet(ipv4(good[TCP:], 6, options=bytes([1, 1, 1, 0])))
    return Sequence(
        "headers",
        config,
        (
            Case("marked bad", good, V.BAD, bad=True),
            Case("marked bad and untagged", tcp(GRADIENTS, tos=0), V.BAD, bad=True),
            Case("16385 bytes", tcp(bytes(16385 - 54), tos=0), V.LONG),
            Case("16384 bytes, untagged", tcp(bytes(16384 - 54), tos=0), V.UNTAGGED),
            Case("1 byte", good[:1], V.TRUNCATED),
            Case("13 bytes", good[:13], V.TRUNCATED),
            Case("ends in the VLAN tag", tcp(GRADIENTS, vlan=5)[:17], V.TRUNCATED),
            Case(
                "two 802.1Q tags",
                packets.MACS + bytes.fromhex("810000018100000208004500") + good[16:],
                V.VLAN_STACK,
            ),
            Case(
                "802.1Q, 802.1ad",
                packets.MACS + bytes.fromhex("8100000188a8000208004500") + good[16:],
                V.VLAN_STACK,
            ),
            Case("802.1ad", packets.MACS + bytes.fromhex("88a8000108004500") + good[16:], V.VLAN_STACK),
            Case("IPv6", patched(good, 12, "86dd"), V.IPV6),
            Case("IPv6 after a VLAN tag", patched(tcp(GRADIENTS, vlan=5), 16, "86dd"), V.IPV6),
            Case("ARP", patched(good, 12, "0806")[:60], V.NOT_IPV4),
            Case("802.3 length", patched(good, 12, "0040"), V.NOT_IPV4),
            Case("ends in the IPv4 header", good[:33], V.TRUNCATED),
            Case("ends in the IPv4 header after a VLAN tag", tcp(GRADIENTS, vlan=5)[:37], V.TRUNCATED),
            Case("IP version 6 in an IPv4 frame", patched(good, IP, "65"), V.NOT_IPV4),
            Case("ToS 0", tcp(GRADIENTS, tos=0), V.UNTAGGED),
            Case("ToS 0x2C", tcp(GRADIENTS, tos=0x2C), V.UNTAGGED),
            Case("ToS 0 with IP options", patched(options, IP + 1, "00"), V.UNTAGGED),
            Case("IP options", options, V.IP_OPTIONS),
            Case("IHL 4", patched(good, IP, "44"), V.IP_OPTIONS),
            Case("first fragment", tcp(GRADIENTS, fragment=0x2000), V.FRAGMENT),
            Case("last fragment", tcp(GRADIENTS, fragment=0x0001), V.FRAGMENT),
            Case("fragment of ICMP", patched(tcp(GRADIENTS, fragment=0x2000), IP + 9, "01"), V.FRAGMENT),
            Case("ICMP", patched(good, IP + 9, "01"), V.PROTOCOL),
            Case("SCTP", patched(good, IP + 9, "84"), V.PROTOCOL),
            Case("ends in the TCP header", good[:53], V.TRUNCATED),
            Case("ends in the UDP header", datagram[:41], V.TRUNCATED),
            Case("TCP data offset 4", patched(good, TCP + 12, "40"), V.LENGTHS),
            Case("TCP data offset 0", patched(good, TCP + 12, "00"), V.LENGTHS),
            Case("IP total length inside the TCP header", patched(good, IP + 2, "0027"), V.LENGTHS),
            Case(
                "IP total length inside the TCP options",
                patched(tcp(b"", tcp_options=TIMESTAMP), IP + 2, "0033"),
                V.LENGTHS,
            ),
            Case("IP total length 0 (segmentation offload)", patched(good, IP + 2, "0000"), V.LENGTHS),
            Case("IP total length inside the UDP header", patched(datagram, IP + 2, "001b"), V.LENGTHS),
            Case("UDP length too large", patched(datagram, TCP + 4, "0109"), V.LENGTHS),
            Case("UDP length too small", patched(datagram, TCP + 4, "0107"), V.LENGTHS),
            Case("frame one byte short of IP total length", good[:-1], V.LENGTHS),
            Case("frame ends with the TCP header", good[:54], V.LENGTHS),
            Case("SYN cut short", tcp(GRADIENTS, flags=SYN)[:-1], V.LENGTHS),
            Case("UDP without checksum", patched(datagram, TCP + 6, "0000"), V.NO_CHECKSUM),
            Case("SYN", tcp(b"", flags=SYN, tcp_options=TIMESTAMP), V.SYN),
            Case("SYN with data (fast open)", tcp(GRADIENTS, flags=SYN, sequence=3), V.SYN),
            Case("a good frame after all this", good, V.COMPRESSED),
        ),
    )


def payloads(codec: CodecCases) -> Sequence:
    """Cover payload lengths and contents, header shapes, and output sizes."""
    zeros = bytes(4 * 16)
    return Sequence(
        "payloads",
        codec.CONFIG,
        (
            Case("ACK", tcp(b"", padding=bytes(6)), V.SHORT),
            Case("60 bytes", tcp(GRADIENTS[:60]), V.SHORT),
            Case("UDP, 60 bytes", udp(GRADIENTS[:60]), V.SHORT),
            Case("64 bytes", tcp(zeros), V.COMPRESSED),
            Case("65 bytes", tcp(GRADIENTS[:65]), V.ALIGNMENT),
            Case("66 bytes", tcp(GRADIENTS[:66]), V.ALIGNMENT),
            Case("67 bytes", udp(GRADIENTS[:67]), V.ALIGNMENT),
            Case("68 bytes: one lane in the last group", tcp(GRADIENTS[:68]), V.COMPRESSED),
            Case("9216 bytes", tcp(payload("gradients", 2304)), V.COMPRESSED),
            Case("9220 bytes", tcp(payload("zeros", 2305)), V.LONG),
            Case("9218 bytes", tcp(bytes(9218)), V.LONG),
            Case(
                "1448 bytes with timestamps",
                tcp(payload("gradients", 362), tcp_options=TIMESTAMP),
                V.COMPRESSED,
            ),
            *codec.sizes(),
            Case("incompressible", tcp(payload("large", 362)), V.EXPANDED),
            Case("random bits", tcp(payload("noise", 362)), codec.NOISE),
            Case("fractions", tcp(payload("fractions", 256)), V.COMPRESSED),
            Case("special values and class edges", tcp(payload("edges", 256)), V.COMPRESSED),
            Case("VLAN", tcp(GRADIENTS, vlan=0x6FFF), V.COMPRESSED),
            Case("VLAN, UDP", udp(GRADIENTS, vlan=1), V.COMPRESSED),
            Case("UDP, zeros", udp(bytes(256)), V.COMPRESSED),
            Case("UDP", udp(GRADIENTS), V.COMPRESSED),
            Case("UDP whose new checksum is 0", udp_to_zero(codec), V.COMPRESSED),
            Case("ECN capable", tcp(GRADIENTS, tos=0x2A), V.COMPRESSED),
            Case("congestion experienced", tcp(GRADIENTS, tos=0x2B), V.COMPRESSED),
            Case("padded", tcp(GRADIENTS, padding=bytes(range(1, 12))), V.COMPRESSED),
            Case("padded, incompressible", tcp(payload("large", 16), padding=b"pad"), V.EXPANDED),
            Case("TCP data offset 15", tcp(GRADIENTS, tcp_options=bytes([1] * 40)), V.COMPRESSED),
            Case("reserved IP flag", tcp(GRADIENTS, fragment=0x8000), V.COMPRESSED),
            Case("wrong IP checksum", patched(tcp(GRADIENTS), IP + 10, "beef"), V.COMPRESSED),
            Case("wrong TCP checksum", patched(tcp(GRADIENTS), TCP + 16, "beef"), V.COMPRESSED),
            Case("TCP checksum 0xFFFF", patched(tcp(GRADIENTS), TCP + 16, "ffff"), V.COMPRESSED),
            Case("wire form would pass the checksum test", ambiguous(codec), V.AMBIGUOUS),
        ),
    )


def phases(config: EngineConfig) -> Sequence:
    """Cover flow phases: learning, SYN, displacement, and frames that must not teach."""
    other = next(
        port
        for port in range(40001, 65536)
        if Flow(SOURCE, DESTINATION, port, 5000).slot == Flow(SOURCE, DESTINATION, 40000, 5000).slot
    )

    def segment(sequence: int, port: int = 40000, flags: int = packets.ACK, data: bytes = GRADIENTS) -> bytes:
        return tcp(data, sequence=sequence, source_port=port, flags=flags)

    return Sequence(
        "phases",
        config,
        (
            Case("too short to teach phase 1", segment(1, data=GRADIENTS[:32]), V.SHORT),
            Case("unaligned length does not teach phase 1", segment(1, data=GRADIENTS[:66]), V.ALIGNMENT),
            Case("first segment teaches phase 2", segment(2), V.COMPRESSED),
            Case("same phase", segment(0xFFFFFFFE), V.COMPRESSED),
            Case("other phase", segment(3), V.PHASE),
            Case("other phase taught nothing", segment(3), V.PHASE),
            Case("the learnt phase still holds", segment(6), V.COMPRESSED),
            Case("SYN teaches phase 0", segment(0xFFFFFFFF, flags=SYN, data=b""), V.SYN),
            Case("phase of the SYN", segment(0), V.COMPRESSED),
            Case("phase from before the SYN", segment(2), V.PHASE),
            Case("SYN, ACK teaches phase 2", segment(1, flags=SYN | packets.ACK, data=b""), V.SYN),
            Case("phase of the SYN, ACK", segment(2), V.COMPRESSED),
            Case(
                "untagged SYN teaches nothing",
                patched(segment(6, flags=SYN, data=b""), IP + 1, "00"),
                V.UNTAGGED,
            ),
            Case("phase 2 still", segment(2), V.COMPRESSED),
            Case("another flow in the same slot displaces it", segment(1, port=other), V.COMPRESSED),
            Case("the displaced flow learns anew", segment(3), V.COMPRESSED),
            Case("and displaces the other, which learns anew", segment(0, port=other), V.COMPRESSED),
            Case(
                "incompressible first segment teaches phase 1",
                segment(1, 1, data=payload("large", 64)),
                V.EXPANDED,
            ),
            Case("so phase 0 is off its grid", segment(0, 1), V.PHASE),
            Case(
                "the reverse direction is a flow of its own",
                tcp(GRADIENTS, sequence=3, source_port=5000, destination_port=1),
                V.COMPRESSED,
            ),
            Case("UDP has no phase", udp(GRADIENTS, source_port=40000), V.COMPRESSED),
        ),
    )


def settings(codec: CodecCases) -> list[Sequence]:
    """Cover other configurations.

    The engine is off, or has other numbers, ToS and mask, limits, or any bound in any mode.
    """
    good, zeros = tcp(GRADIENTS), tcp(bytes(64))
    mixed = payload("edges", 40) + payload("fractions", 40)
    config = codec.CONFIG

    def one(name: str, config: EngineConfig, *cases: tuple[str, bytes, V]) -> Sequence:
        return Sequence(name, config, tuple(Case(*case) for case in cases))

    return [
        one(
            "off",
            replace(config, enable=False),
            ("good frame", good, V.DISABLED),
            ("1 byte", good[:1], V.DISABLED),
        ),
        *codec.numbers(),
        one(
            "ToS 0x10, mask 0xF0",
            replace(config, tos=0x10, tos_mask=0xF0),
            ("0x28", good, V.UNTAGGED),
            ("0x1F", tcp(GRADIENTS, tos=0x1F), V.COMPRESSED),
        ),
        one("mask 0", replace(config, tos_mask=0), ("ToS 0", tcp(GRADIENTS, tos=0), V.COMPRESSED)),
        one(
            "payload 0..256 bytes",
            replace(config, min_payload=0, max_payload=256),
            ("0 bytes", tcp(b""), V.SHORT),
            ("1 byte", tcp(b"1"), V.ALIGNMENT),
            ("8 bytes", tcp(bytes(8)), V.EXPANDED),
            ("12 bytes", tcp(bytes(12)), V.COMPRESSED),
            ("16 bytes, UDP", udp(bytes(16)), V.COMPRESSED),
            ("256 bytes", tcp(bytes(256)), V.COMPRESSED),
            ("260 bytes", tcp(bytes(260)), V.LONG),
        ),
        one("payload of 65 bytes and more", replace(config, min_payload=65), ("64 bytes", zeros, V.SHORT)),
        *(
            one(
                name,
                replace(config, parameters=parameters),
                ("every class", tcp(mixed), V.COMPRESSED),
                ("every class, UDP", udp(mixed), V.COMPRESSED),
            )
            for name, parameters in codec.bounds().items()
        ),
    ]


def sequences(codec: CodecCases) -> list[Sequence]:
    """Return all of the above."""
    return [headers(codec.CONFIG), payloads(codec), phases(codec.CONFIG), *settings(codec)]
