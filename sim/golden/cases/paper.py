# SPDX-License-Identifier: BSD-2-Clause
"""Cases of the paper's codec, wire format version 1."""

from dataclasses import replace

from inceptionn import wire
from inceptionn.wire import Verdict as V

from ..frame import EngineConfig
from ..packets import tcp
from ..values import payload
from .case import GRADIENTS, OPENING, Case, Sequence, patched
from .wire_side import sent, shimmed

CONFIG = EngineConfig()
INVALID: wire.CodecParameters = wire.Parameters(0, 0, 0)
NOISE = V.COMPRESSED
RAW_LANE = 0x40000000
FINE_EXPONENT = 126


def sizes() -> tuple[Case, ...]:
    """Make blocks around the size of the payload."""
    raw = payload("large", 13)
    half = bytes.fromhex("0000003f")
    eighth = bytes.fromhex("0000003c")  # 2**-7, in the 8-bit class
    zeros = bytes(4 * 16)
    return (
        Case("one byte longer than the payload", tcp(raw + half + zeros[:8]), V.EXPANDED),
        Case("as long as the payload", tcp(raw + zeros[:12]), V.EXPANDED),
        Case("one byte shorter than the payload", tcp(raw[:48] + half + eighth + zeros[:8]), V.COMPRESSED),
    )


def numbers() -> list[Sequence]:
    """Give E0, T and B invalid values, and both ends of their ranges."""
    good = tcp(GRADIENTS)
    mixed = tcp(payload("edges", 40) + payload("fractions", 40))

    def one(name: str, e0: int, t: int, b: int, *cases: Case) -> Sequence:
        return Sequence(name, replace(CONFIG, parameters=wire.Parameters(e0, t, b)), *cases)

    off = Case("good frame", good, V.DISABLED)
    return [
        one("E0 0", 0, 122, 122, off, Case("16385 bytes", bytes(16385), V.DISABLED)),
        one("T below E0", 117, 116, 127, off),
        one("T above 127", 117, 128, 128, off),
        one("B below T", 117, 122, 121, off),
        one(
            "B 255: nothing left of the 8-bit class",
            100,
            127,
            255,
            OPENING,
            Case("fractions", mixed, V.COMPRESSED),
        ),
        one("no 8-bit class", 117, 117, 117, OPENING, Case("fractions", mixed, V.COMPRESSED)),
        one(
            "everything 16 bits, down to exponent 1", 1, 1, 1, OPENING, Case("gradients", good, V.COMPRESSED)
        ),
        one("no 16-bit class", 100, 127, 127, OPENING, Case("fractions", mixed, V.COMPRESSED)),
    ]


def bounds() -> dict[str, wire.Parameters]:
    """Return every bound in both modes."""
    return {
        f"2**-{k} {mode}": wire.parameters(k, mode)
        for mode in wire.MODES
        for k in range(wire.MIN_K, wire.MAX_K + 1)
    }


def bad_shims(good: bytes) -> tuple[Case, ...]:
    """Use other versions; every B is valid."""
    return (
        Case("version 0", patched(good, 56, "00"), V.BAD_SHIM),
        Case("version 2", patched(good, 56, "02"), V.BAD_SHIM),
    )


def malformed() -> Sequence:
    """Put faulty blocks after a valid shim."""
    good = sent(tcp(GRADIENTS), CONFIG)
    return Sequence(
        "malformed",
        CONFIG,
        Case("well formed, by hand", shimmed("01000000" + "a0", 16), V.RESTORED),
        Case("no block", shimmed("", 16), V.MALFORMED),
        Case("ends inside the tag table", shimmed("000000", 16), V.MALFORMED),
        Case("frame ends with the shim", shimmed("00000000", 16, cut=4), V.MALFORMED),
        Case("frame ends inside the tag table", shimmed("00000000", 16, cut=1), V.MALFORMED),
        Case("frame ends with the tag table", shimmed("0100000000", 16, cut=1), V.MALFORMED),
        Case("frame ends inside the data", good[:-1], V.MALFORMED),
        Case(
            "frame ends inside a vector of the second group",
            shimmed("0100030020a1a2a3a4", 16, cut=1),
            V.MALFORMED,
        ),
        Case("data one byte short", shimmed("05000000" + "20", 16), V.MALFORMED),
        Case("data one byte short, padded", shimmed("05000000" + "20", 16) + b"\x20\x20", V.MALFORMED),
        Case("ends inside the tag table, padded", shimmed("000000", 16) + bytes(2), V.MALFORMED),
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
    )
