# SPDX-License-Identifier: BSD-2-Clause
"""Frames for every verdict of the transmit engine."""

from dataclasses import replace
from itertools import islice
from typing import Any

from inceptionn.wire import Verdict as V

from .. import packets
from ..flows import Flow
from ..frame import EngineConfig
from ..packets import ACK, DESTINATION, FIN, RST, SOURCE, SYN, ethernet, ipv4, tcp, udp
from ..values import payload
from .case import GRADIENTS, IP, OPENING, TCP, TIMESTAMP, Case, CodecCases, Sequence, patched
from .checksums import ambiguous, udp_to_zero


def headers(config: EngineConfig) -> Sequence:
    """Cover every decision from the headers, in the order of the steps."""
    good, datagram = tcp(GRADIENTS), udp(GRADIENTS)
    options = ethernet(ipv4(good[TCP:], 6, options=bytes([1, 1, 1, 0])))
    return Sequence(
        "headers",
        config,
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
    )


def payloads(codec: CodecCases) -> Sequence:
    """Cover payload lengths and contents, header shapes, and output sizes."""
    zeros = bytes(4 * 16)
    return Sequence(
        "payloads",
        codec.CONFIG,
        OPENING,
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
            "1448 bytes with timestamps", tcp(payload("gradients", 362), tcp_options=TIMESTAMP), V.COMPRESSED
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
    )


_VALUES = GRADIENTS[:64]


def segment(sequence: int, port: int = 40000, flags: int = ACK, data: bytes = _VALUES, **more: Any) -> bytes:
    """Make a TCP frame of ``data`` (256 bytes of gradients) from ``port``."""
    return tcp(data, sequence=sequence, source_port=port, flags=flags, **more)


def syn(sequence: int, port: int = 40000, flags: int = SYN, **more: Any) -> bytes:
    """Make the SYN of a flow whose values begin after ``sequence``."""
    return segment(sequence, port, flags, b"", **more)


def sharing_ports(count: int, destination_port: int = 5000) -> list[int]:
    """Return source ports of flows that share a set of the flow table, 40000 first."""
    flows = (Flow(SOURCE, DESTINATION, port, destination_port) for port in range(40000, 65536))
    first = next(flows)
    return [first.source_port, *islice((f.source_port for f in flows if f.slot == first.slot), count - 1)]


def phases(config: EngineConfig) -> Sequence:
    """Cover flow phases: what sets them, and what does not."""
    return Sequence(
        "phases",
        config,
        Case("out of reset: no flow is known", segment(0), V.UNKNOWN_FLOW),
        Case("a segment teaches nothing", segment(0), V.UNKNOWN_FLOW),
        Case("SYN teaches phase 0", syn(0xFFFFFFFF), V.SYN),
        Case("phase of the SYN", segment(0), V.COMPRESSED),
        Case("same phase", segment(0xFFFFFFFC), V.COMPRESSED),
        Case("other phase", segment(2), V.PHASE),
        Case("other phase taught nothing", segment(2), V.PHASE),
        Case("SYN, ACK teaches phase 2", syn(1, flags=SYN | ACK), V.SYN),
        Case("phase of the SYN, ACK", segment(2), V.COMPRESSED),
        Case("phase from before", segment(0), V.PHASE),
        Case("the SYN once more", syn(1, flags=SYN | ACK), V.SYN),
        Case("phase 2 still", segment(6), V.COMPRESSED),
        Case("SYN marked bad", syn(2), V.BAD, bad=True),
        Case("SYN cut short", segment(2, flags=SYN)[:-1], V.LENGTHS),
        Case("SYN of a fragment", syn(2, fragment=0x2000), V.FRAGMENT),
        Case("they taught nothing", segment(6), V.COMPRESSED),
        Case("SYN with data (fast open)", segment(4, flags=SYN), V.SYN),
        Case("phase 1", segment(5), V.COMPRESSED),
        Case("the first segment of a flow is incompressible", segment(1, 1, data=payload("large", 16)),
             V.UNKNOWN_FLOW),
        Case("the reverse direction is a flow of its own",
             tcp(_VALUES, sequence=3, source_port=5000, destination_port=40000), V.UNKNOWN_FLOW),
        Case("UDP has no phase", udp(_VALUES, source_port=40000), V.COMPRESSED),
        Case("too short", segment(1, 1, data=_VALUES[:32]), V.SHORT),
        Case("unaligned length", segment(1, 1, data=GRADIENTS[:66]), V.ALIGNMENT),
    )  # fmt: skip


def ends(config: EngineConfig) -> list[Sequence]:
    """Cover what takes a flow out of the table, and its 4-tuple used again."""
    on_grid = Case("on its grid", segment(0), V.COMPRESSED)
    gone = Case("it is gone", segment(0), V.UNKNOWN_FLOW)
    options = ethernet(ipv4(segment(0, flags=FIN, data=b"")[TCP:], 6, tos=0, options=bytes([1, 1, 1, 0])))
    frees = {
        "FIN": (syn(0, flags=FIN | ACK), V.SHORT),
        "RST": (syn(0, flags=RST), V.SHORT),
        "FIN without the mark": (syn(0, flags=FIN | ACK, tos=0), V.UNTAGGED),
        "RST without the mark": (syn(0, flags=RST, tos=0), V.UNTAGGED),
        "FIN with data is judged before": (segment(0, flags=FIN | ACK), V.COMPRESSED),
        "FIN with data off the grid": (segment(1, flags=FIN | ACK), V.PHASE),
        "FIN with data of an odd length": (segment(0, flags=FIN | ACK, data=GRADIENTS[:65]), V.ALIGNMENT),
        "FIN with incompressible data": (segment(0, flags=FIN, data=payload("large", 16)), V.EXPANDED),
        "FIN after a VLAN tag": (syn(0, flags=FIN | ACK, vlan=5), V.SHORT),
        "RST with SYN": (syn(3, flags=RST | SYN), V.SYN),
        "FIN with SYN": (syn(3, flags=FIN | SYN), V.SYN),
        "SYN without the mark": (syn(3, tos=0), V.UNTAGGED),
        "SYN, ACK without the mark": (syn(3, flags=SYN | ACK, tos=0), V.UNTAGGED),
    }
    whole = segment(0, flags=FIN, tos=0)
    keeps = (
        Case("FIN marked bad", syn(0, flags=FIN), V.BAD, bad=True),
        Case("FIN of another flow", syn(0, 40001, flags=FIN), V.SHORT),
        Case("FIN of the reverse direction",
             tcp(b"", source_port=5000, destination_port=40000, flags=FIN), V.SHORT),
        Case("FIN cut short", segment(0, flags=FIN)[:-1], V.LENGTHS),
        Case("FIN without the mark, cut short", whole[:-1], V.UNTAGGED),
        Case("FIN without the mark, data offset 4", patched(whole, TCP + 12, "40"), V.UNTAGGED),
        Case("FIN without the mark, IP version 6", patched(whole, IP, "65"), V.NOT_IPV4),
        Case("FIN without the mark of a fragment", syn(0, flags=FIN, tos=0, fragment=1), V.UNTAGGED),
        Case("FIN without the mark with IP options", options, V.UNTAGGED),
        Case("another protocol without the mark", patched(whole, IP + 9, "84"), V.UNTAGGED),
        Case("a datagram with the same bytes",
             patched(udp(_VALUES, tos=0), TCP + 12, "5001"), V.UNTAGGED),
        Case("PSH, ACK, URG, ECE, CWR without the mark", segment(0, flags=0xF8, tos=0), V.UNTAGGED),
    )  # fmt: skip
    return [
        Sequence(
            "what frees an entry",
            config,
            *(
                case
                for name, (frame, verdict) in frees.items()
                for case in (OPENING, on_grid, Case(name, frame, verdict), gone)
            ),
        ),
        Sequence(
            "what frees no entry", config, OPENING, *(case for keep in keeps for case in (keep, on_grid))
        ),
        Sequence(
            "marked after connect",
            config,
            Case("SYN without the mark", syn(0, tos=0), V.UNTAGGED),
            Case("3 bytes without it", segment(1, data=b"abc", tos=0), V.UNTAGGED),
            Case("values with the mark", segment(4), V.UNKNOWN_FLOW),
        ),
        Sequence(
            "a 4-tuple used again, without the mark at its SYN",
            config,
            Case("SYN", syn(0), V.SYN),
            Case("values", segment(1), V.COMPRESSED),
            Case("SYN without the mark", syn(1, tos=0), V.UNTAGGED),
            Case("3 bytes without the mark", segment(2, data=b"abc", tos=0), V.UNTAGGED),
            Case("values with it, on the old grid", segment(5), V.UNKNOWN_FLOW),
            Case("SYN with the mark", syn(4), V.SYN),
            Case("values again", segment(5), V.COMPRESSED),
        ),
    ]


def ways(config: EngineConfig) -> list[Sequence]:
    """Cover the table's two ways, and what it knows of a flow that was displaced."""
    a, b, c, d = sharing_ports(4)
    start = 7
    data = payload("gradients", 1024)
    pieces = ((0, 1000, V.COMPRESSED), (1000, 1402, V.ALIGNMENT))

    def known(name: str, port: int) -> Case:
        return Case(f"{name} is known", segment(0, port), V.COMPRESSED)

    def gone(name: str, port: int) -> Case:
        return Case(f"{name} is not", segment(0, port), V.UNKNOWN_FLOW)

    def opens(name: str, port: int) -> Case:
        return Case(f"SYN of {name}", syn(-1, port), V.SYN)

    return [
        Sequence(
            "displaced in mid-stream",
            config,
            Case("SYN of A", syn(start, a), V.SYN),
            *(
                Case(f"{at} to {end} of A", segment(start + 1 + at, a, data=data[at:end]), verdict)
                for at, end, verdict in pieces
            ),
            opens("B", b),
            Case("A, off its grid", segment(start + 1403, a, data=data[1402:2802]), V.PHASE),
            opens("C", c),
            Case("the same", segment(start + 1403, a, data=data[1402:2802]), V.UNKNOWN_FLOW),
            Case("A, on its grid", segment(start + 1405, a, data=data[1404:2804]), V.UNKNOWN_FLOW),
            Case("SYN of A", syn(start, a), V.SYN),
            Case("A, on its grid", segment(start + 1405, a, data=data[1404:2804]), V.COMPRESSED),
        ),
        Sequence(
            "two ways",
            config,
            opens("A", a), opens("B", b), known("A", a), known("B", b),
            opens("C", c), gone("A", a), known("B", b), known("C", c),  # A was stored before B
            opens("D", d), gone("B", b), known("C", c), known("D", d),
            opens("C", c), known("D", d),  # C keeps its way, and is now the younger
            opens("A", a), gone("D", d), known("C", c), known("A", a),
            Case("RST of A", syn(0, a, flags=RST), V.SHORT), gone("A", a), known("C", c),
            opens("B", b), known("C", c), known("B", b),  # a free way first
            Case("RST of C", syn(0, c, flags=RST), V.SHORT), gone("C", c),
            opens("B", b), known("B", b),  # keeps its way, though the other is free
            opens("D", d), known("B", b), known("D", d),
            opens("A", a), gone("B", b), known("D", d), known("A", a),
            Case("RST of A", syn(0, a, flags=RST), V.SHORT),
            Case("RST of D", syn(0, d, flags=RST), V.SHORT), gone("A", a), gone("D", d),
            opens("A", a), opens("C", c), opens("B", b), gone("A", a), known("C", c), known("B", b),
        ),
    ]  # fmt: skip


def learning(config: EngineConfig) -> Sequence:
    """Cover the register bit by which any segment announces its flow."""
    a, b, c = sharing_ports(3)
    return Sequence(
        "learn_phases",
        replace(config, learn_phases=True),
        Case("too short to teach phase 1", segment(1, data=_VALUES[:32]), V.SHORT),
        Case("unaligned length does not teach phase 1", segment(1, data=GRADIENTS[:66]), V.ALIGNMENT),
        Case("first segment teaches phase 2", segment(2), V.COMPRESSED),
        Case("other phase", segment(3), V.PHASE),
        Case("the learnt phase still holds", segment(6), V.COMPRESSED),
        Case("SYN teaches phase 0", syn(-1), V.SYN),
        Case("phase from before the SYN", segment(2), V.PHASE),
        Case("SYN without the mark", syn(6, tos=0), V.UNTAGGED),
        Case("the next segment teaches phase 1", segment(1), V.COMPRESSED),
        Case("phase 1", segment(5), V.COMPRESSED),
        Case("phase 0", segment(4), V.PHASE),
        Case("incompressible first segment teaches phase 1", segment(1, b, data=payload("large", 16)),
             V.EXPANDED),
        Case("so phase 0 is off its grid", segment(0, b), V.PHASE),
        Case("a third flow of the set displaces the older", segment(2, c), V.COMPRESSED),
        Case("the second is still known", segment(0, b), V.PHASE),
        Case("the first learns anew, and displaces the second", segment(3, a), V.COMPRESSED),
        Case("the third is still known", segment(3, c), V.PHASE),
        Case("FIN of it, with data", segment(2, c, flags=FIN | ACK), V.COMPRESSED),
        Case("FIN of a flow that is not known", segment(3, c, flags=FIN | ACK), V.COMPRESSED),
        Case("it was not stored", segment(0, c, flags=RST | ACK), V.COMPRESSED),
        Case("nor was RST", segment(1, c), V.COMPRESSED),
        Case("the first is still known", segment(0, a), V.PHASE),
    )  # fmt: skip


def settings(codec: CodecCases) -> list[Sequence]:
    """Cover other configurations.

    The engine is off, or has other numbers, ToS and mask, limits, or any bound in any mode.
    """
    good, zeros = tcp(GRADIENTS), tcp(bytes(64))
    mixed = payload("edges", 40) + payload("fractions", 40)
    config = codec.CONFIG

    return [
        Sequence(
            "off",
            replace(config, enable=False),
            Case("good frame", good, V.DISABLED),
            Case("1 byte", good[:1], V.DISABLED),
        ),
        *codec.numbers(),
        Sequence(
            "ToS 0x10, mask 0xF0",
            replace(config, tos=0x10, tos_mask=0xF0),
            Case("SYN 0x1F", syn(-1, tos=0x1F), V.SYN),
            Case("0x28", good, V.UNTAGGED),
            Case("0x1F", tcp(GRADIENTS, tos=0x1F), V.COMPRESSED),
        ),
        Sequence(
            "mask 0", replace(config, tos_mask=0), OPENING, Case("ToS 0", tcp(GRADIENTS, tos=0), V.COMPRESSED)
        ),
        Sequence(
            "payload 0..256 bytes",
            replace(config, min_payload=0, max_payload=256),
            OPENING,
            Case("0 bytes", tcp(b""), V.SHORT),
            Case("1 byte", tcp(b"1"), V.ALIGNMENT),
            Case("8 bytes", tcp(bytes(8)), V.EXPANDED),
            Case("12 bytes", tcp(bytes(12)), V.COMPRESSED),
            Case("16 bytes, UDP", udp(bytes(16)), V.COMPRESSED),
            Case("256 bytes", tcp(bytes(256)), V.COMPRESSED),
            Case("260 bytes", tcp(bytes(260)), V.LONG),
        ),
        Sequence(
            "payload of 65 bytes and more", replace(config, min_payload=65), Case("64 bytes", zeros, V.SHORT)
        ),
        *(
            Sequence(
                name,
                replace(config, parameters=parameters),
                OPENING,
                Case("every class", tcp(mixed), V.COMPRESSED),
                Case("every class, UDP", udp(mixed), V.COMPRESSED),
            )
            for name, parameters in codec.bounds().items()
        ),
    ]


def sequences(codec: CodecCases) -> list[Sequence]:
    """Return all of the above."""
    config = codec.CONFIG
    flows = [phases(config), *ends(config), *ways(config), learning(config)]
    return [headers(config), payloads(codec), *flows, *settings(codec)]
