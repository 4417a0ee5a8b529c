# SPDX-License-Identifier: BSD-2-Clause
"""Frames for every verdict of the receive engine."""

from dataclasses import replace

from inceptionn.wire import Verdict as V

from ..packets import SYN, tcp, udp
from ..values import payload
from .case import GRADIENTS, TIMESTAMP, Case, CodecCases, Sequence, patched
from .wire_side import sent


def ordinary(codec: CodecCases) -> Sequence:
    """Make frames that are not the engine's business."""
    config, form = codec.CONFIG, codec.CONFIG.format
    good = sent(tcp(GRADIENTS), config)
    shim = form.shim(form.base, 256)
    return Sequence(
        "ordinary",
        config,
        Case("untagged", tcp(GRADIENTS, tos=0), V.UNTAGGED),
        Case("untagged, marked bad", tcp(GRADIENTS, tos=0), V.BAD, bad=True),
        Case("1 byte", good[:1], V.TRUNCATED),
        Case("ends in the TCP header", good[:53], V.TRUNCATED),
        Case("IPv6", patched(good, 12, "86dd"), V.IPV6),
        Case("ARP", patched(good, 12, "0806")[:60], V.NOT_IPV4),
        Case("802.1ad", patched(good, 12, "88a8"), V.VLAN_STACK),
        Case("IP options", patched(good, 14, "46"), V.IP_OPTIONS),
        Case("fragment", patched(good, 20, "2000"), V.FRAGMENT),
        Case("ICMP", patched(good, 23, "01"), V.PROTOCOL),
        Case("TCP data offset 4", patched(good, 46, "40"), V.LENGTHS),
        Case("IP total length inside the TCP header", patched(good, 16, "0027"), V.LENGTHS),
        Case("UDP length", patched(sent(udp(GRADIENTS), config), 38, "0100"), V.LENGTHS),
        Case("SYN with a shim", patched(good, 47, "02"), V.SYN),
        Case("SYN", tcp(b"", flags=SYN), V.SYN),
        Case("UDP without checksum", patched(sent(udp(GRADIENTS), config), 40, "0000"), V.NO_CHECKSUM),
        Case("AF11 with other data", tcp(b"GET / HTTP/1.1\r\n\r\n", padding=b""), V.NO_SHIM),
        Case("raw gradients", tcp(GRADIENTS), V.NO_SHIM),
        Case("ACK", tcp(b"", padding=bytes(6)), V.NO_SHIM),
        Case("7 bytes of a shim", tcp(shim[:7]), V.NO_SHIM),
        Case("7 bytes of a shim and padding", tcp(shim[:7], padding=shim), V.NO_SHIM),
        Case("frame ends in the shim", good[: 54 + 7], V.LENGTHS),
        Case("frame ends with the headers", good[:54], V.LENGTHS),
        Case("frame 17408 bytes", tcp(bytes(17408 - 54)), V.NO_SHIM),
        Case("magic, first byte", patched(good, 54, "48"), V.NO_SHIM),
        Case("magic, second byte", patched(good, 55, "4f"), V.NO_SHIM),
        *codec.bad_shims(good),
        Case("zero field, first byte", patched(good, 60, "80"), V.BAD_SHIM),
        Case("zero field, second byte", patched(good, 61, "01"), V.BAD_SHIM),
        Case("length not a multiple of 4", patched(good, 58, "0102"), V.BAD_SHIM),
        Case("length 0", patched(good, 58, "0000"), V.BAD_SHIM),
        Case("length of the wire payload", tcp(patched(shim, 4, "000c") + bytes(4)), V.BAD_SHIM),
        Case("length beyond the maximum", patched(good, 58, "2404"), V.BAD_SHIM),
        Case("a good frame after all this", good, V.RESTORED),
    )


def restored(codec: CodecCases) -> Sequence:
    """Make frames as the transmit engine does."""
    frames = {
        "64 bytes": tcp(bytes(64)),
        "gradients": tcp(GRADIENTS),
        "one lane in the last group": tcp(GRADIENTS[:68]),
        "9216 bytes": tcp(payload("gradients", 2304)),
        "9216 zero bytes": tcp(bytes(9216)),
        "1448 bytes with timestamps": tcp(payload("gradients", 362), tcp_options=TIMESTAMP),
        "fractions": tcp(payload("fractions", 256)),
        "special values and class edges": tcp(payload("edges", 256)),
        "random bits": tcp(payload("noise", 362)),
        "VLAN": tcp(GRADIENTS, vlan=0x6FFF),
        "UDP": udp(GRADIENTS),
        "UDP, VLAN": udp(GRADIENTS, vlan=1),
        "congestion experienced": tcp(GRADIENTS, tos=0x2B),
        "TCP data offset 15": tcp(GRADIENTS, tcp_options=bytes([1] * 40)),
        "wrong IP checksum": patched(tcp(GRADIENTS), 24, "beef"),
        "wrong TCP checksum": patched(tcp(GRADIENTS), 50, "beef"),
    }
    if codec.NOISE is not V.COMPRESSED:
        del frames["random bits"]
    config, form = codec.CONFIG, codec.CONFIG.format
    good, short = sent(tcp(GRADIENTS), config), sent(udp(bytes(64)), config)
    return Sequence(
        "restored",
        config,
        *(Case(name, sent(frame, config), V.RESTORED) for name, frame in frames.items()),
        Case("padded to 60 bytes", short + bytes(60 - len(short)), V.RESTORED),
        Case("padded with a shim", good + form.shim(form.base, 256), V.RESTORED),
        Case("marked bad", good, V.BAD, bad=True),
        Case("a good frame after all this", good, V.RESTORED),
    )


def settings(codec: CodecCases) -> list[Sequence]:
    """Vary the configuration, and restore each bound's and mode's frames."""
    config = codec.CONFIG
    good = sent(tcp(GRADIENTS), config)
    mixed = payload("edges", 40) + payload("fractions", 40)
    bounds = tuple(
        Case(name, sent(tcp(mixed), replace(config, parameters=parameters)), V.RESTORED)
        for name, parameters in codec.bounds().items()
    )
    cases = Case("good frame", good, V.DISABLED), Case("marked bad", good, V.BAD, bad=True)
    return [
        Sequence("every bound: its number comes with the frame", config, *bounds),
        Sequence("off", replace(config, enable=False), *cases),
        Sequence(
            "invalid parameters do not matter",
            replace(config, parameters=codec.INVALID),
            Case("good frame", good, V.RESTORED),
        ),
        Sequence(
            "payload at most 256 bytes",
            replace(config, max_payload=256),
            Case("256 bytes", good, V.RESTORED),
            Case("260 bytes", sent(tcp(bytes(260)), config), V.BAD_SHIM),
        ),
        Sequence(
            "ToS 0x10, mask 0xF0",
            replace(config, tos=0x10, tos_mask=0xF0),
            Case("0x28", good, V.UNTAGGED),
            Case("0x13", patched(good, 15, "13"), V.RESTORED),
        ),
    ]


def sequences(codec: CodecCases) -> list[Sequence]:
    """Return all of the above."""
    return [ordinary(codec), restored(codec), codec.malformed(), *settings(codec)]
