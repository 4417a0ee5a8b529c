# SPDX-License-Identifier: BSD-2-Clause
"""Cases of the planes codec, wire format version 2. Its bound is 2**-10, so its step is 2**-9."""

import struct
from dataclasses import replace

from inceptionn import wire
from inceptionn.wire import Verdict as V

from ..frame import EngineConfig
from ..packets import tcp
from .case import GRADIENTS, Case, Sequence, patched
from .wire_side import sent, shimmed

CONFIG = EngineConfig(parameters=wire.planes_parameters(wire.DEFAULT_K))
INVALID: wire.CodecParameters = wire.PlanesParameters(0)
NOISE = V.EXPANDED
RAW_LANE = 0x42000000
FINE_EXPONENT = 129


def _floats(*values: float) -> bytes:
    return struct.pack(f"<{len(values)}f", *values)


def sizes() -> tuple[Case, ...]:
    """Make blocks around the size of the payload, 68 bytes.

    It has a raw group, 8 lanes of 12 to 14 planes, one lane.
    """
    raw, zeros = _floats(*[16.0] * 8), _floats(*[0.0] * 7)
    four, eight = _floats(4.0), _floats(8.0)  # 13 planes, and 14, which take the 15 bytes of code 14
    return (
        Case("one byte longer than the payload", tcp(raw + _floats(2.0) + zeros + eight), V.EXPANDED),
        Case("as long as the payload", tcp(raw + four + zeros + four), V.EXPANDED),
        Case("one byte shorter than the payload", tcp(raw + four + zeros + _floats(2.0)), V.COMPRESSED),
        Case("a lane rounded up to another plane", tcp(raw + _floats(3.9999) + zeros + four), V.EXPANDED),
        Case("a lane just below that", tcp(raw + _floats(3.999) + zeros + four), V.COMPRESSED),
        Case("14 and 15 planes", tcp(_floats(8.0, -15.9, *[0.5] * 14)), V.COMPRESSED),
        Case(
            "a lane rounded up to the raw lanes' threshold", tcp(_floats(15.9999, *[0.5] * 15)), V.COMPRESSED
        ),
        Case("a group raw for its last lane", tcp(_floats(*[0.001] * 7, -16.0, *[0.5] * 8)), V.COMPRESSED),
        Case(
            "values of half a step",
            tcp(_floats(2**-10, -(2**-10), 0.9999 * 2**-10, *[0.0] * 13)),
            V.COMPRESSED,
        ),
    )


def numbers() -> list[Sequence]:
    """Give E0 values outside 113..126."""
    good = tcp(GRADIENTS)

    def one(e0: int, *cases: Case) -> Sequence:
        return Sequence(f"E0 {e0}", replace(CONFIG, parameters=wire.PlanesParameters(e0)), *cases)

    off = Case("good frame", good, V.DISABLED)
    long = Case("16385 bytes", bytes(16385), V.DISABLED)
    return [one(0, off, long), one(112, off), one(127, off), one(255, off)]


def bounds() -> dict[str, wire.PlanesParameters]:
    """Return every bound."""
    return {f"2**-{k}": wire.planes_parameters(k) for k in range(wire.MIN_K, wire.MAX_K + 1)}


def bad_shims(good: bytes) -> tuple[Case, ...]:
    """Use other versions, and an E0 of no bound."""
    return (
        Case("version 0", patched(good, 56, "00"), V.BAD_SHIM),
        Case("version 1", patched(good, 56, "01"), V.BAD_SHIM),
        Case("version 3", patched(good, 56, "03"), V.BAD_SHIM),
        Case("a frame of the paper's codec", sent(tcp(GRADIENTS), EngineConfig()), V.BAD_SHIM),
        *(Case(f"E0 {e0}", patched(good, 57, f"{e0:02x}"), V.BAD_SHIM) for e0 in (0, 112, 127, 245, 255)),
    )


def malformed() -> Sequence:
    """Put faulty blocks after a valid shim, and unusual ones that are valid."""
    good = sent(tcp(GRADIENTS), CONFIG)

    def faulty(name: str, block: str, lanes: int = 16, *, cut: int = 0, pad: int = 0) -> Case:
        frame = shimmed(block, lanes, 117, version=2, cut=cut) + b"\x20" * pad
        return Case(name, frame, V.MALFORMED)

    def sound(name: str, block: str, lanes: int = 16, *, e0: int = 117) -> Case:
        return Case(name, shimmed(block, lanes, e0, version=2), V.RESTORED)

    raw_zeros = "00" * 4 * 7
    return Sequence(
        "malformed",
        CONFIG,
        sound("well formed, by hand", "0400" + "2a918c80"),
        faulty("no block", ""),
        faulty("ends inside the code table", "00"),
        faulty("ends inside the second word of the code table", "000000", 40),
        faulty("frame ends with the shim", "0000", cut=2),
        faulty("frame ends inside the code table", "0000", cut=1),
        faulty("frame ends with the code table", "0100" + "00", cut=1),
        Case("frame ends inside the data", good[:-1], V.MALFORMED),
        faulty("frame ends inside the second group", "2100" + "a1" + "b1b2", cut=1),
        faulty("data one byte short", "0200" + "20"),
        faulty("data one byte short, padded", "0200" + "20", pad=2),
        faulty("ends inside the code table, padded", "00", pad=2),
        faulty("data 32 bytes short", "0f00"),
        faulty("data 15 bytes short", "0e00"),
        faulty("one byte left over", "0100" + "2020"),
        faulty("32 bytes left over", "0100" + "20" + "00" * 32),
        faulty("left over and cut off", "0100" + "2020", cut=1),
        faulty("code of a third group of two", "0001"),
        faulty("code of a fourth group of two", "0010"),
        faulty("code of a third group of two, with its data", "0001" + "20"),
        faulty("code of a second group of one", "1000", 8),
        faulty("code of an eighth group of five", "01000010" + "20", 40),
        faulty("absent lane in the signs' plane", "1000" + "02", 9),
        faulty("absent lane in the last plane", "2000" + "0180", 9),
        faulty("absent lane of 15 planes", "e000" + "00" * 14 + "02", 9),
        faulty("absent lane in a raw group", "f000" + "00" * 28 + "0000803f", 15),
        faulty("absent -0.0 in a raw group", "f000" + "00" * 28 + "00000080", 15),
        sound("last group of one lane", "1000" + "01", 9),
        sound("last group raw, seven lanes", "f000" + "0000803f" * 7 + "00000000", 15),
        sound("planes of zeros", "5300" + "000000" + "0000000000"),
        sound("15 planes of ones: the largest magnitude", "0e00" + "ff" * 15),
        sound("15 planes of ones, E0 126", "0e00" + "ff" * 15, e0=126),
        sound("15 planes of ones, E0 113", "0e00" + "ff" * 15, e0=113),
        sound("no lane of a raw group is raw", "0f00" + "0000803a" + raw_zeros),
        sound("NaN survives", "0f00" + "010080ff" + raw_zeros),
        sound("denormal and -0.0 survive in a raw group", "0f00" + "0100008000000080" + raw_zeros[8:]),
        faulty("ends inside the third group of four", "1113" + "01" + "02" + "0304", 32),
        Case("marked bad and malformed", faulty("", "0200" + "20").frame, V.BAD, bad=True),
        Case("marked bad and cut off", good[:-1], V.BAD, bad=True),
        Case("marked bad, bad shim", patched(good, 56, "01"), V.BAD, bad=True),
        Case("marked bad, ends in the shim", good[:60], V.BAD, bad=True),
        Case("a good frame after all this", good, V.RESTORED),
    )
