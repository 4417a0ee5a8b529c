# SPDX-License-Identifier: BSD-2-Clause
"""The conformance vectors of the planes codec: lanes and blocks; see :mod:`.vectors`."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from inceptionn import wire

from . import planes, values
from .codec import Bits

EXPONENTS = (0, 1, 64, *range(111, 142), 200, 254, 255)
MANTISSAS = (*values.EDGE_MANTISSAS, 0x3FFFFF, 0x5FFFFF, 0x600000, 0x7FFBFF, 0x7FFC00)
"""Those of the payloads, and some next to halves of a step."""
BOUNDS = range(wire.MIN_K, wire.MAX_K + 1)


def lanes() -> dict[str, Any]:
    """Make ``planes_lanes.json``: the lane codec, both ways."""
    edges = [s << 31 | e << 23 | m for e in EXPONENTS for m in MANTISSAS for s in (0, 1)]
    inputs = np.array(list(dict.fromkeys([*values.SPECIAL, *edges])), np.uint32)
    sets = []
    for k in BOUNDS:
        found = planes.compress_lanes(inputs, wire.planes_parameters(k).e0)
        pairs = zip(found.z.tolist(), found.raw.tolist(), strict=True)
        words = ["-" if raw else f"{number:x}" for number, raw in pairs]
        sets.append({"k": k, "e0": 127 - k, "integers": " ".join(words), "outputs": _words(found.bits)})
    integers = sorted({*range(34), *((1 << i) + low for i in range(5, 16) for low in (-2, -1, 0, 1))})
    z = np.array([number for number in integers if number < 1 << 15], np.uint32)
    decoder = [
        {
            "k": k,
            "e0": 127 - k,
            "integers": " ".join(f"{number:x}" for number in z.tolist()),
            "outputs": _words(planes.decompress_lanes(z, 127 - k)),
        }
        for k in (wire.MIN_K, wire.DEFAULT_K, wire.MAX_K)
    ]
    return {"inputs": _words(inputs), "compress": sets, "decompress": decoder}


def _words(bits: Bits) -> str:
    return " ".join(f"{word:08x}" for word in bits.tolist())


MALFORMED = (
    ("the code plane is cut", 1, "00"),
    ("the second word of the code plane is cut", 40, "000000"),
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
)


def blocks() -> dict[str, Any]:
    """Make ``planes_blocks.json``: blocks and streams of every payload kind, and malformed blocks."""
    good = []
    for kind in values.KINDS:
        for k in BOUNDS if kind == "edges" else (wire.DEFAULT_K,):
            for count in (1, 7, 8, 9, 63, 64) if kind == "edges" else (1, 16, 61):
                good.append(_block(k, kind, count))
    good.append(_block(wire.DEFAULT_K, "gradients", wire.MAX_LANES))
    decoded = []
    source = random.Random(2)
    for code in range(wire.CODES):  # any pattern decodes, those that no encoder makes too
        data = source.randbytes(wire.CODE_BYTES[code])
        block = bytes([code, 0]) + data
        output = planes.decompress_block(block, 8, 117)
        decoded.append({"k": 10, "count": 8, "block": block.hex(), "output": output.tobytes().hex()})
    malformed = []
    for name, count, text in MALFORMED:
        _, _, fault = planes.examine_block(bytes.fromhex(text), count, 117)
        assert fault is not None
        malformed.append(
            {"name": name, "count": count, "block": text, "offset": fault.offset, "group": fault.group}
        )
    streams = []
    for count in (0, 1, 2048, 2049):
        x = np.frombuffer(values.payload("gradients", count), np.float32)
        stream = planes.compress(x)
        output = planes.decompress(stream, count)
        streams.append(
            {
                "k": 10,
                "count": count,
                "input": x.tobytes().hex(),
                "stream": stream.hex(),
                "output": output.tobytes().hex(),
            }
        )
    return {"blocks": good, "decompress": decoded, "malformed": malformed, "streams": streams}


def _block(k: int, kind: str, count: int) -> dict[str, Any]:
    x = np.frombuffer(values.payload(kind, count), np.float32)
    block = planes.compress_block(x, 127 - k)
    return {
        "k": k,
        "e0": 127 - k,
        "kind": kind,
        "count": count,
        "input": x.tobytes().hex(),
        "block": block.hex(),
        "output": planes.decompress_block(block, count, 127 - k).tobytes().hex(),
        "histogram": planes.histogram(x, 2.0**-k).tolist(),
    }
