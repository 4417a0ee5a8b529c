# SPDX-License-Identifier: BSD-2-Clause
"""The conformance vectors of the planes codec: lanes and blocks of fp32 and bf16; see :mod:`.vectors`."""

import random
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from inceptionn import wire
from inceptionn.wire import BF16_LANES, FP32_LANES, LaneType

from . import planes, values

EXPONENTS = (0, 1, 64, *range(111, 142), 200, 254, 255)
BOUNDS = range(wire.MIN_K, wire.MAX_K + 1)


class _Cases(NamedTuple):
    """The ingredients of the vectors of a type of lane."""

    special: tuple[int, ...]
    mantissas: tuple[int, ...]
    """Some of them next to halves of a step."""
    payload: Callable[[str, int], bytes]
    edge_counts: tuple[int, ...]
    counts: tuple[int, ...]
    seed: int
    malformed: tuple[tuple[str, int, str], ...]
    """The fault, the number of lanes, and the block."""


_CASES = {
    FP32_LANES: _Cases(
        values.SPECIAL,
        (*values.EDGE_MANTISSAS, 0x3FFFFF, 0x5FFFFF, 0x600000, 0x7FFBFF, 0x7FFC00),
        values.payload,
        (1, 7, 8, 9, 63, 64),
        (1, 16, 61),
        2,
        (
            ("the code table is cut", 1, "00"),
            ("the second word of the code table is cut", 40, "000000"),
            ("no data", 1, "0100"),
            ("the second group is cut", 16, "110001"),
            ("a raw group is cut", 8, "0f00" + "ff" * 31),
            ("15 planes are cut", 8, "0e00" + "ff" * 14),
            ("a byte is left over", 8, "01000100"),
            ("a code past the last group", 8, "1000"),
            ("a code past the last group, in another byte", 8, "0001"),
            ("a code past the fifth group", 40, "00001000"),
            ("a plane with a bit of an absent lane", 1, "010002"),
            ("the second plane with a bit of an absent lane", 7, "02000180"),
            ("a raw group with a word of an absent lane", 1, "0f00" + "00" * 7 + "80" + "00" * 24),
        ),
    ),
    BF16_LANES: _Cases(
        (),
        (0, 1, 0x20, 0x3F, 0x40, 0x41, 0x7E, 0x7F),
        values.bf16_payload,
        (1, 15, 16, 17, 64, 65),
        (1, 32, 77),
        16,
        (
            ("the code table is cut", 1, "00"),
            ("the second word of the code table is cut", 80, "000000"),
            ("no data", 1, "0100"),
            ("half a plane", 1, "010001"),
            ("the second group is cut", 32, "1100010001"),
            ("a raw group is cut", 16, "0f00" + "ff" * 31),
            ("14 planes are cut", 16, "0e00" + "ff" * 27),
            ("a byte is left over", 16, "0100010000"),
            ("a code past the last group", 16, "1000"),
            ("a code past the last group, in another byte", 16, "0001"),
            ("a code past the fifth group", 80, "00001000"),
            ("a plane with a bit of an absent lane", 1, "01000200"),
            ("a plane with a bit of the last absent lane", 15, "01000080"),
            ("the second plane with a bit of an absent lane", 9, "020000010002"),
            ("a raw group with a word of an absent lane", 1, "0f00" + "00" * 3 + "80" + "00" * 28),
        ),
    ),
}


def _word(kind: LaneType) -> str:
    return f"<u{kind.bytes}"


def _hex(words: NDArray[Any], kind: LaneType) -> str:
    return " ".join(f"{word:0{2 * kind.bytes}x}" for word in words.tolist())


def row(settings: dict[str, Any], x: NDArray[Any], **made: Any) -> dict[str, Any]:
    """Return the vector of an array: its settings, its bytes, and those of what is made of it."""
    shown = {name: bytes(data).hex() for name, data in made.items()}
    return {**settings, "count": len(x), "input": x.tobytes().hex(), **shown}


def lanes(kind: LaneType) -> dict[str, Any]:
    """Make ``planes_lanes.json`` or ``bf16_lanes.json``: the lane codec, both ways."""
    cases, sign = _CASES[kind], 8 * kind.bytes - 1
    edges = [
        s << sign | e << kind.mantissa_bits | m for e in EXPONENTS for m in cases.mantissas for s in (0, 1)
    ]
    inputs = np.array(list(dict.fromkeys([*cases.special, *edges])), _word(kind))
    sets = []
    for k in BOUNDS:
        found = planes.compress_lanes(inputs, 127 - k, kind)
        pairs = zip(found.z.tolist(), found.raw.tolist(), strict=True)
        integers = " ".join("-" if raw else f"{number:x}" for number, raw in pairs)
        sets.append({"k": k, "e0": 127 - k, "integers": integers, "outputs": _hex(found.bits, kind)})
    next_to_powers = ((1 << i) + low for i in range(5, kind.planes + 1) for low in (-2, -1, 0, 1))
    numbers = sorted({*range(34), *(number for number in next_to_powers if number < 1 << kind.planes)})
    z = np.array(numbers, np.uint32)
    integers = " ".join(f"{number:x}" for number in numbers)
    decoder = [
        {
            "k": k, "e0": 127 - k, "integers": integers,
            "outputs": _hex(planes.decompress_lanes(z, 127 - k, kind), kind),
        }
        for k in (wire.MIN_K, wire.DEFAULT_K, wire.MAX_K)
    ]  # fmt: skip
    return {"inputs": _hex(inputs, kind), "compress": sets, "decompress": decoder}


def blocks(kind: LaneType) -> dict[str, Any]:
    """Make ``planes_blocks.json`` or ``bf16_blocks.json``: blocks of every payload kind, and malformed ones.

    Those of fp32 have streams, too.
    """
    cases, good = _CASES[kind], []
    for name in values.KINDS:
        for k in BOUNDS if name == "edges" else (wire.DEFAULT_K,):
            for count in cases.edge_counts if name == "edges" else cases.counts:
                good.append(_block(k, name, count, kind))
    good.append(_block(wire.DEFAULT_K, "gradients", kind.max_lanes, kind))
    source = random.Random(cases.seed)
    decoded = []
    for code, size in enumerate(kind.code_bytes):  # any pattern decodes, one that no encoder makes too
        block = bytes([code, 0]) + source.randbytes(size)
        output = planes.decompress_block(block, kind.group_lanes, 117, kind).tobytes()
        decoded.append({"k": 10, "count": kind.group_lanes, "block": block.hex(), "output": output.hex()})
    malformed = []
    for name, count, text in cases.malformed:
        _, _, fault = planes.examine_block(bytes.fromhex(text), count, 117, kind=kind)
        assert fault is not None
        malformed.append(
            {"name": name, "count": count, "block": text, "offset": fault.offset, "group": fault.group}
        )
    streams = {} if kind is BF16_LANES else {"streams": _streams()}
    return {"blocks": good, "decompress": decoded, "malformed": malformed, **streams}


def _streams() -> list[dict[str, Any]]:
    streams = []
    for count in (0, 1, 2048, 2049):
        x = np.frombuffer(values.payload("gradients", count), np.float32)
        stream = planes.compress(x)
        streams.append(row({"k": 10}, x, stream=stream, output=planes.decompress(stream, count)))
    return streams


def _block(k: int, name: str, count: int, kind: LaneType) -> dict[str, Any]:
    dtype = np.float32 if kind is FP32_LANES else np.uint16
    x: NDArray[Any] = np.frombuffer(_CASES[kind].payload(name, count), dtype)
    block = planes.compress_block(x, 127 - k, kind)
    back = planes.decompress_block(block, count, 127 - k, kind)
    known = row({"k": k, "e0": 127 - k, "kind": name}, x, block=block, output=back)
    return {**known, "histogram": planes.histogram(x, 2.0**-k, kind).tolist()}
