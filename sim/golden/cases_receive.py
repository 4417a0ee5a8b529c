# SPDX-License-Identifier: BSD-2-Clause
"""Frames for every verdict of the receive engine, each with the verdict written down by hand."""

from __future__ import annotations

from dataclasses import replace

from inceptionn import wire
from inceptionn.wire import Verdict as V

from .cases import CONFIG, GRADIENTS, TIMESTAMP, Case, Sequence, patched
from .flows import FlowTable
from .frame import EngineConfig, transmit
from .packets import SYN, tcp, udp
from .values import payload


def sent(frame: bytes, config: EngineConfig = CONFIG) -> bytes:
    """``frame`` as the transmit engine compresses it. ``ValueError`` if it does not."""
    result = transmit(frame, config, FlowTable())
    if result.verdict is not V.COMPRESSED:
        raise ValueError(f"the frame is not compressed: {result.verdict.name}")
    return result.frame


def shimmed(block: str, lanes: int, base: int = 122, *, cut: int = 0) -> bytes:
    """A TCP frame with a valid shim for ``lanes`` lanes and any ``block`` (hexadecimal).

    The last ``cut`` bytes, though announced, are not in the frame.
    """
    shim = f"494e01{base:02x}{4 * lanes:04x}0000"
    frame = tcp(bytes.fromhex(shim + block))
    return frame[: len(frame) - cut]


def ordinary() -> Sequence:
    """Frames that are not the engine's business."""
    good = sent(tcp(GRADIENTS))
    shim = bytes.fromhex("494e017a01000000")
    return Sequence(
        "ordinary",
        CONFIG,
        (
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
            Case("UDP length", patched(sent(udp(GRADIENTS)), 38, "0100"), V.LENGTHS),
            Case("SYN with a shim", patched(good, 47, "02"), V.SYN),
            Case("SYN", tcp(b"", flags=SYN), V.SYN),
            Case("UDP without checksum", patched(sent(udp(GRADIENTS)), 40, "0000"), V.NO_CHECKSUM),
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
            Case("version 0", patched(good, 56, "00"), V.BAD_SHIM),
            Case("version 2", patched(good, 56, "02"), V.BAD_SHIM),
            Case("zero field, first byte", patched(good, 60, "80"), V.BAD_SHIM),
            Case("zero field, second byte", patched(good, 61, "01"), V.BAD_SHIM),
            Case("length not a multiple of 4", patched(good, 58, "0102"), V.BAD_SHIM),
            Case("length 0", patched(good, 58, "0000"), V.BAD_SHIM),
            Case("length of the wire payload", tcp(patched(shim, 4, "000c") + bytes(4)), V.BAD_SHIM),
            Case("length beyond the maximum", patched(good, 58, "2404"), V.BAD_SHIM),
            Case("a good frame after all this", good, V.RESTORED),
        ),
    )


def restored() -> Sequence:
    """Frames that the transmit engine made."""
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
    good, short = sent(tcp(GRADIENTS)), sent(udp(bytes(64)))
    return Sequence(
        "restored",
        CONFIG,
        (
            *(Case(name, sent(frame), V.RESTORED) for name, frame in frames.items()),
            Case("padded to 60 bytes", short + bytes(60 - len(short)), V.RESTORED),
            Case("padded with a shim", good + bytes.fromhex("494e017a01000000"), V.RESTORED),
            Case("marked bad", good, V.BAD, bad=True),
            Case("a good frame after all this", good, V.RESTORED),
        ),
    )


def malformed() -> Sequence:
    """Faulty blocks after a valid shim."""
    good = sent(tcp(GRADIENTS))
    return Sequence(
        "malformed",
        CONFIG,
        (
            Case("well formed, by hand", shimmed("01000000" + "a0", 16), V.RESTORED),
            Case("no block", shimmed("", 16), V.MALFORMED),
            Case("ends inside the tag plane", shimmed("000000", 16), V.MALFORMED),
            Case("frame ends with the shim", shimmed("00000000", 16, cut=4), V.MALFORMED),
            Case("frame ends inside the tag plane", shimmed("00000000", 16, cut=1), V.MALFORMED),
            Case("frame ends with the tag plane", shimmed("0100000000", 16, cut=1), V.MALFORMED),
            Case("frame ends inside the data", good[:-1], V.MALFORMED),
            Case(
                "frame ends inside a vector of the second group",
                shimmed("0100030020a1a2a3a4", 16, cut=1),
                V.MALFORMED,
            ),
            Case("data one byte short", shimmed("05000000" + "20", 16), V.MALFORMED),
            Case("data one byte short, padded", shimmed("05000000" + "20", 16) + b"\x20\x20", V.MALFORMED),
            Case("ends inside the tag plane, padded", shimmed("000000", 16) + bytes(2), V.MALFORMED),
            Case("data 32 bytes short", shimmed("ffff0000", 16), V.MALFORMED),
            Case("one byte left over", shimmed("01000000" + "2020", 16), V.MALFORMED),
            Case("32 bytes left over", shimmed("000000000000000000000000" + "00" * 24, 16), V.MALFORMED),
            Case("left over and cut off", shimmed("01000000" + "2020", 16, cut=1), V.MALFORMED),
            Case("absent lane with tag 01", shimmed("0000" + "0800" + "20", 9), V.MALFORMED),
            Case("absent lane with tag 10 and data", shimmed("0000" + "0080" + "2020", 15), V.MALFORMED),
            Case("exponent 0", shimmed("01000000" + "40", 16, base=1), V.MALFORMED),
            Case("exponent 1", shimmed("01000000" + "40", 16, base=2), V.RESTORED),
            Case("exponent -6", shimmed("00000100" + "81", 16, base=1), V.MALFORMED),
            Case("base 0, zero magnitude", shimmed("05000000" + "8000", 16, base=0), V.RESTORED),
            Case("base 0, impossible", shimmed("05000000" + "8001", 16, base=0), V.MALFORMED),
            Case("base 255", shimmed("05000000" + "407f", 16, base=255), V.RESTORED),
            Case("16-bit class does not know the base", shimmed("02000000" + "0180", 16, base=0), V.RESTORED),
            Case("NaN survives", shimmed("03000000" + "010080ff", 16), V.RESTORED),
            Case(
                "impossible vector in the third group",
                shimmed("0300aaaa01000000" + "0000803f" + "0040" * 8 + "01", 25, base=3),
                V.MALFORMED,
            ),
            Case("nine raw lanes", shimmed("ffff0300" + "0000803f" * 9, 16), V.RESTORED),
            Case("marked bad and malformed", shimmed("05000000" + "20", 16), V.BAD, bad=True),
            Case("marked bad and cut off", good[:-1], V.BAD, bad=True),
            Case("marked bad, bad shim", patched(good, 56, "02"), V.BAD, bad=True),
            Case("marked bad, ends in the shim", good[:60], V.BAD, bad=True),
            Case("a good frame after all this", good, V.RESTORED),
        ),
    )


def settings() -> list[Sequence]:
    """Other configurations, and what every bound in both modes sends."""
    good = sent(tcp(GRADIENTS))
    mixed = payload("edges", 40) + payload("fractions", 40)
    configs = {
        f"2**-{k} {mode}": replace(CONFIG, parameters=wire.parameters(k, mode))
        for mode in wire.PAPER_MODES
        for k in range(wire.MIN_K, wire.MAX_K + 1)
    }
    bounds = tuple(Case(name, sent(tcp(mixed), config), V.RESTORED) for name, config in configs.items())
    cases = Case("good frame", good, V.DISABLED), Case("marked bad", good, V.BAD, bad=True)
    return [
        Sequence("every bound and mode: the base comes with the frame", CONFIG, bounds),
        Sequence("off", replace(CONFIG, enable=False), cases),
        Sequence(
            "invalid E0, T, B do not matter",
            replace(CONFIG, parameters=wire.Parameters(0, 0, 0)),
            (Case("good frame", good, V.RESTORED),),
        ),
        Sequence(
            "payload at most 256 bytes",
            replace(CONFIG, max_payload=256),
            (
                Case("256 bytes", good, V.RESTORED),
                Case("260 bytes", sent(tcp(bytes(260))), V.BAD_SHIM),
            ),
        ),
        Sequence(
            "ToS 0x10, mask 0xF0",
            replace(CONFIG, tos=0x10, tos_mask=0xF0),
            (
                Case("0x28", good, V.UNTAGGED),
                Case("0x13", patched(good, 15, "13"), V.RESTORED),
            ),
        ),
    ]


def receive_sequences() -> list[Sequence]:
    """All of the above."""
    return [ordinary(), restored(), malformed(), *settings()]
