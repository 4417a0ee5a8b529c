# SPDX-License-Identifier: BSD-2-Clause
"""Frames with bf16 lanes, and beside them those with fp32 lanes: wire-format.md section 10.

What the headers decide is the same for both (:mod:`.transmit`, :mod:`.receive`). The bound is 2**-10 unless a
case says another.
"""

from dataclasses import replace
from typing import Any

from inceptionn import wire
from inceptionn.wire import Verdict as V

from ..frame import EngineConfig
from ..packets import ACK, SYN, tcp, udp
from ..values import bf16_payload
from .case import GRADIENTS, OPENING, Case, Sequence, patched
from .wire_side import sent, shimmed

TOS = wire.DEFAULT_BF16_TOS
CONFIG = EngineConfig(parameters=wire.planes_parameters(wire.DEFAULT_K), bf16_tos=TOS)
WITHOUT = replace(CONFIG, bf16_tos=None)
VALUES = bf16_payload("gradients", 128)
"""64 fp32 lanes' bytes of bf16 gradients."""


def _bf16(payload: bytes, **fields: Any) -> bytes:
    return tcp(payload, tos=TOS, **fields)


def _lanes(*words: int) -> bytes:
    return b"".join(word.to_bytes(2, "little") for word in words)


def _payloads() -> Sequence:
    zeros = [0] * 15
    raw = [0x4180] * 16  # 16.0, the smallest magnitude that is raw
    ties = _lanes(0x3A80, 0xBA80, 0x3A7F, 0x3B40, *zeros, *zeros)
    return Sequence(
        "payloads",
        CONFIG,
        OPENING,
        Case("60 bytes", _bf16(VALUES[:60]), V.SHORT),
        Case("64 bytes", _bf16(VALUES[:64]), V.COMPRESSED),
        Case("33 lanes", _bf16(VALUES[:66]), V.ALIGNMENT),
        Case("68 bytes: two lanes in the last group", _bf16(VALUES[:68]), V.COMPRESSED),
        Case("4608 lanes", _bf16(bf16_payload("gradients", 4608)), V.COMPRESSED),
        Case("4610 lanes", _bf16(bytes(9220)), V.LONG),
        Case("zeros", _bf16(bytes(1448)), V.COMPRESSED),
        Case("incompressible", _bf16(bf16_payload("large", 724)), V.EXPANDED),
        Case("fractions", _bf16(bf16_payload("fractions", 512)), V.COMPRESSED),
        Case("special values and class edges", _bf16(bf16_payload("edges", 512)), V.EXPANDED),
        Case("fp32 gradients between", tcp(GRADIENTS), V.COMPRESSED),
        Case("fp32 gradients as bf16", _bf16(GRADIENTS), V.EXPANDED),
        Case("bf16 gradients as fp32", tcp(VALUES), V.COMPRESSED),
        Case("ECN capable", tcp(VALUES, tos=TOS | 2), V.COMPRESSED),
        Case("congestion experienced", tcp(VALUES, tos=TOS | 3), V.COMPRESSED),
        Case("another ToS", tcp(VALUES, tos=0x30), V.UNTAGGED),
        Case("VLAN", _bf16(VALUES, vlan=7), V.COMPRESSED),
        Case("UDP", udp(VALUES, tos=TOS), V.COMPRESSED),
        Case("UDP, VLAN", udp(VALUES, tos=TOS, vlan=1), V.COMPRESSED),
        Case("UDP, 33 lanes", udp(VALUES[:66], tos=TOS), V.ALIGNMENT),
        # 68 bytes: shim and code table take 10, the raw group 32.
        Case("two bytes longer", _bf16(_lanes(*raw, 0x4080, *zeros, 0xBB00, 0)), V.EXPANDED),
        Case("as long as the payload", _bf16(_lanes(*raw, 0x4080, *zeros, 0, 0)), V.EXPANDED),
        Case("two bytes shorter", _bf16(_lanes(*raw, 0x4000, *zeros, 0, 0)), V.COMPRESSED),
        Case("14 planes", _bf16(_lanes(0x417F, 0xC17F, *[0x3F00] * 30, 0, 0)), V.COMPRESSED),
        Case("halves of a step", _bf16(ties), V.COMPRESSED),
    )  # fmt: skip


def _phases() -> Sequence:
    def segment(sequence: int, tos: int = TOS, flags: int = ACK, data: bytes = VALUES) -> bytes:
        return tcp(data, sequence=sequence, tos=tos, flags=flags)

    return Sequence(
        "phases",
        CONFIG,
        Case("SYN teaches phase 1", segment(0, flags=SYN, data=b""), V.SYN),
        Case("phase 1", segment(1), V.COMPRESSED),
        Case("two bytes further on", segment(3), V.PHASE),
        Case("the same flow with fp32 lanes", segment(5, 0x28, data=GRADIENTS), V.COMPRESSED),
        Case("which keeps its phase", segment(3, 0x28, data=GRADIENTS), V.PHASE),
        Case("SYN with a third ToS", segment(0, 0x30, flags=SYN, data=b""), V.UNTAGGED),
        Case("no phase", segment(1), V.UNKNOWN_FLOW),
        Case("SYN with the ToS of fp32", segment(2, 0x28, flags=SYN, data=b""), V.SYN),
        Case("phase 3", segment(3), V.COMPRESSED),
    )


_ZERO = Case("bf16 at 0", tcp(VALUES, tos=0), V.UNTAGGED)


def transmitted() -> list[Sequence]:
    """Return every case of the transmit engine."""
    mixed = bf16_payload("edges", 16) + bf16_payload("fractions", 160)
    off = (OPENING, Case("bf16", _bf16(VALUES), V.UNTAGGED), Case("fp32", tcp(GRADIENTS), V.COMPRESSED))
    return [
        _payloads(),
        _phases(),
        *(
            Sequence(
                f"2**-{k}",
                replace(CONFIG, parameters=wire.planes_parameters(k)),
                OPENING,
                Case("every class", _bf16(mixed), V.COMPRESSED),
                Case("every class, UDP", udp(mixed, tos=TOS), V.COMPRESSED),
            )
            for k in range(wire.MIN_K, wire.MAX_K + 1)
        ),
        Sequence("without bf16 lanes", WITHOUT, *off),
        Sequence("both ToS values equal", replace(CONFIG, bf16_tos=0x28), *off),
        Sequence("both ToS values equal but for ECN", replace(CONFIG, bf16_tos=0x2B), *off),
        Sequence("ToS value of bf16 is 0", replace(CONFIG, bf16_tos=0), *off, _ZERO),
        Sequence("ToS value of bf16 is 0 but for ECN", replace(CONFIG, bf16_tos=3), *off, _ZERO),
        Sequence(
            "ToS values exchanged",
            replace(CONFIG, tos=TOS, bf16_tos=0x28),
            OPENING,
            Case("bf16 at 0x28", tcp(VALUES), V.COMPRESSED),
            Case("fp32 at 0x2C", _bf16(GRADIENTS), V.COMPRESSED),
        ),
        Sequence("E0 112", replace(CONFIG, parameters=wire.PlanesParameters(112)),
                 Case("bf16", _bf16(VALUES), V.DISABLED)),
    ]  # fmt: skip


def _restored() -> Sequence:
    frames = {
        "64 bytes of zeros": _bf16(bytes(64)),
        "gradients": _bf16(VALUES),
        "two lanes in the last group": _bf16(VALUES[:68]),
        "4608 lanes": _bf16(bf16_payload("gradients", 4608)),
        "fractions": _bf16(bf16_payload("fractions", 512)),
        "special values among gradients": _bf16(bf16_payload("edges", 16) + VALUES),
        "fp32": tcp(GRADIENTS),
        "VLAN": _bf16(VALUES, vlan=0x6FFF),
        "UDP": udp(VALUES, tos=TOS),
        "congestion experienced": tcp(VALUES, tos=TOS | 3),
    }
    made = {name: sent(frame, CONFIG) for name, frame in frames.items()}
    return Sequence(
        "restored",
        CONFIG,
        *(Case(name, frame, V.RESTORED) for name, frame in made.items()),
        *(Case(f"{name}, marked bad", made[name], V.BAD, bad=True) for name in ("gradients", "fp32")),
        Case("the shim decides, not the ToS byte", patched(made["gradients"], 15, "28"), V.RESTORED),
        Case("fp32 lanes at the ToS of bf16", patched(made["fp32"], 15, "2c"), V.RESTORED),
    )


def _shims() -> list[Sequence]:
    good, fp32 = sent(_bf16(VALUES), CONFIG), sent(tcp(GRADIENTS), CONFIG)
    bounds = tuple(
        Case(f"2**-{k}", sent(_bf16(VALUES), config), V.RESTORED)
        for k in range(wire.MIN_K, wire.MAX_K + 1)
        for config in (replace(CONFIG, parameters=wire.planes_parameters(k)),)
    )
    numbers = (0, 112, 127, 128, 240, 255)
    return [
        Sequence(
            "shims",
            CONFIG,
            *bounds,
            *(Case(f"byte 3 is {n}", patched(good, 57, f"{n:02x}"), V.BAD_SHIM) for n in numbers),
            Case("version 1", patched(good, 56, "01"), V.BAD_SHIM),
            Case("length of 129 lanes", patched(good, 58, "0102"), V.BAD_SHIM),
            Case("raw bf16", _bf16(VALUES), V.NO_SHIM),
        ),
        Sequence(
            "without bf16 lanes",
            WITHOUT,
            Case("bf16", good, V.UNTAGGED),
            Case("bf16 at 0x28", patched(good, 15, "28"), V.BAD_SHIM),
            Case("fp32", fp32, V.RESTORED),
        ),
        Sequence(
            "both ToS values equal",
            replace(CONFIG, bf16_tos=0x28),
            Case("bf16 at 0x28", patched(good, 15, "28"), V.BAD_SHIM),
            Case("fp32", fp32, V.RESTORED),
        ),
    ]


def _malformed() -> Sequence:
    good = sent(_bf16(VALUES), CONFIG)

    def frame(block: str, lanes: int, **more: int) -> bytes:
        return shimmed(block, lanes, 117 + 128, version=2, lane_bytes=2, tos=TOS, **more)

    def faulty(name: str, block: str, lanes: int = 32, *, cut: int = 0) -> Case:
        return Case(name, frame(block, lanes, cut=cut), V.MALFORMED)

    def sound(name: str, block: str, lanes: int = 32) -> Case:
        return Case(name, frame(block, lanes), V.RESTORED)

    return Sequence(
        "malformed",
        CONFIG,
        sound("well formed, by hand", "04002a0091008c008000"),
        faulty("no block", ""),
        faulty("ends inside the code table", "00"),
        faulty("ends inside the second word of the code table", "000000", 80),
        faulty("frame ends inside the code table", "0000", cut=1),
        Case("frame ends inside the data", good[:-1], V.MALFORMED),
        faulty("frame ends inside the second group", "2100" + "a1a1" + "b1b1b2b2", cut=3),
        faulty("data one byte short", "0200" + "202020"),
        faulty("data 28 bytes short", "0e00"),
        faulty("data 32 bytes short", "0f00"),
        faulty("one byte left over", "0100" + "202020"),
        faulty("code of a third group of two", "0001"),
        faulty("code of an eighth group of five", "01000010" + "2020", 80),
        faulty("absent lane in the signs' plane", "1000" + "0400", 18),
        faulty("absent lane in the second byte of a plane", "1000" + "0001", 18),
        faulty("absent lane of 14 planes", "000e" + "00" * 26 + "0400", 34),
        faulty("absent lane in a raw group", "f000" + "00" * 30 + "803f", 30),
        faulty("absent -0.0 in a raw group", "f000" + "00" * 30 + "0080", 30),
        sound("last group of two lanes", "1000" + "0300", 18),
        sound("planes of zeros", "5300" + "00" * 6 + "00" * 10),
        sound("14 planes of ones: significands are cut", "0e00" + "ff" * 28),
        sound("no lane of a raw group is raw", "0f00" + "803a" + "00" * 30),
        sound("NaN, infinity, denormal and -0.0 in a raw group", "0f00" + "81ff80ff01000080" + "00" * 24),
        Case("marked bad and malformed", frame("0200" + "2020", 32), V.BAD, bad=True),
        Case("a good frame after all this", good, V.RESTORED),
    )


def received() -> list[Sequence]:
    """Return every case of the receive engine."""
    return [_restored(), *_shims(), _malformed()]
