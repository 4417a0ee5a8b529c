# SPDX-License-Identifier: BSD-2-Clause
"""The conformance vectors of bf16 lanes: lanes and blocks; see :mod:`.vectors` and :mod:`.planes_vectors`."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from inceptionn import wire
from inceptionn.wire import BF16_LANES

from . import planes, values
from .planes import Words
from .planes_vectors import BOUNDS, EXPONENTS

MANTISSAS = (0, 1, 0x20, 0x3F, 0x40, 0x41, 0x7E, 0x7F)


def lanes() -> dict[str, Any]:
    """Make ``bf16_lanes.json``: the lane codec, both ways."""
    inputs = np.array([s << 15 | e << 7 | m for e in EXPONENTS for m in MANTISSAS for s in (0, 1)], np.uint16)
    sets = []
    for k in BOUNDS:
        found = planes.compress_lanes(inputs, 127 - k, BF16_LANES)
        pairs = zip(found.z.tolist(), found.raw.tolist(), strict=True)
        integers = ["-" if raw else f"{number:x}" for number, raw in pairs]
        sets.append({"k": k, "e0": 127 - k, "integers": " ".join(integers), "outputs": _digits(found.bits)})
    next_to_powers = ((1 << i) + low for i in range(5, 14) for low in (-2, -1, 0, 1))
    z = np.array(sorted({*range(34), *next_to_powers, 0x3FFE, 0x3FFF}), np.uint32)
    decoder = [
        {
            "k": k,
            "e0": 127 - k,
            "integers": " ".join(f"{number:x}" for number in z.tolist()),
            "outputs": _digits(planes.decompress_lanes(z, 127 - k, BF16_LANES)),
        }
        for k in (wire.MIN_K, wire.DEFAULT_K, wire.MAX_K)
    ]
    return {"inputs": _digits(inputs), "compress": sets, "decompress": decoder}


def _digits(words: Words) -> str:
    return " ".join(f"{word:04x}" for word in words.tolist())


MALFORMED = (
    ("the code plane is cut", 1, "00"),
    ("the second word of the code plane is cut", 80, "000000"),
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
)


def blocks() -> dict[str, Any]:
    """Make ``bf16_blocks.json``: blocks of every payload kind, and malformed blocks."""
    good = []
    for kind in values.KINDS:
        for k in BOUNDS if kind == "edges" else (wire.DEFAULT_K,):
            for count in (1, 15, 16, 17, 64, 65) if kind == "edges" else (1, 32, 77):
                good.append(_block(k, kind, count))
    good.append(_block(wire.DEFAULT_K, "gradients", BF16_LANES.max_lanes))
    source = random.Random(16)
    decoded = []
    for code, size in enumerate(BF16_LANES.code_bytes):  # any pattern decodes, one that no encoder makes too
        block = bytes([code, 0]) + source.randbytes(size)
        output = planes.decompress_block(block, 16, 117, BF16_LANES)
        decoded.append({"k": 10, "count": 16, "block": block.hex(), "output": output.tobytes().hex()})
    malformed = []
    for name, count, text in MALFORMED:
        _, _, fault = planes.examine_block(bytes.fromhex(text), count, 117, kind=BF16_LANES)
        assert fault is not None
        malformed.append(
            {"name": name, "count": count, "block": text, "offset": fault.offset, "group": fault.group}
        )
    return {"blocks": good, "decompress": decoded, "malformed": malformed}


def _block(k: int, kind: str, count: int) -> dict[str, Any]:
    x = np.frombuffer(values.bf16_payload(kind, count), np.uint16)
    block = planes.compress_block(x, 127 - k, BF16_LANES)
    return {
        "k": k,
        "e0": 127 - k,
        "kind": kind,
        "count": count,
        "input": x.tobytes().hex(),
        "block": block.hex(),
        "output": planes.decompress_block(block, count, 127 - k, BF16_LANES).tobytes().hex(),
        "histogram": planes.histogram(x, 2.0**-k, BF16_LANES).tolist(),
    }
