# SPDX-License-Identifier: BSD-2-Clause
"""Lanes and blocks of wire-format.md sections 1 and 2, to be read beside Algorithms 2 and 3 of the paper.

Lanes are handled as their 32 bits (``uint32``) throughout: arithmetic on floats would quieten signalling
NaNs. Everything is plain NumPy over whole arrays. The golden model is made from these functions, and so is
the codec where there is no C extension; see :mod:`.numpy_kernel`, which calls those at the end.
"""

import numpy as np
from numpy.typing import NDArray

from .. import wire
from ..wire import Parameters, Tag
from .coder import Coder
from .numpy_types import Bits, Bytes, Fault

Numbers = Parameters | Coder

CLASSES = 4
TAG_BYTES = np.array(wire.TAG_BYTES)
TAG_SHIFTS = 2 * np.arange(wire.GROUP_LANES, dtype=np.uint16)
"""The place of each lane's tag in the tag word."""


def compress_lanes(bits: Bits, params: Numbers) -> tuple[NDArray[np.uint8], Bits]:
    """Apply Algorithm 2 to every lane: ``uint32[n]`` to tags ``uint8[n]`` and vectors ``uint32[n]``.

    A vector's unused high bits are zero. A shift that leaves none of the kept bits gives a vector
    of zero magnitude (with its sign).
    """
    s = bits >> 31
    e = ((bits >> 23) & 0xFF).astype(np.int32)
    m = bits & 0x7FFFFF
    one_m = (1 << 23) | m  # concat(1'b1, m)

    shifted16 = one_m >> np.clip(127 - e, 0, 24).astype(np.uint32)
    shifted8 = one_m >> np.clip(params.b - e, 0, 24).astype(np.uint32)
    tags = np.select(
        [e >= 127, e < params.e0, e >= params.t],
        [Tag.RAW, Tag.ZERO, Tag.BITS16],
        Tag.BITS8,
    ).astype(np.uint8)
    vectors = np.choose(
        tags,
        [
            np.uint32(0),
            s << 7 | ((shifted8 >> 16) & 0x7F),  # concat(s, shifted_m[22:16])
            s << 15 | ((shifted16 >> 8) & 0x7FFF),  # concat(s, shifted_m[22:8])
            bits,
        ],
    )
    return tags, vectors.astype(np.uint32)


def decompress_lanes(tags: NDArray[np.uint8], vectors: Bits, b: int) -> tuple[Bits, NDArray[np.bool_]]:
    """Apply Algorithm 3 to every lane: tags and vectors to ``uint32[n]``, and tell the impossible ones.

    A vector is impossible when its exponent would fall below 1 (8-bit class, ``b`` small); its lane is then
    0. Zero magnitude gives +0.0 whatever the sign.
    """
    width = np.where(tags == Tag.BITS8, 7, 15)
    s = (vectors >> width.astype(np.uint32)) & 1
    magnitude = vectors & ((1 << width) - 1).astype(np.uint32)
    length = np.frexp(magnitude.astype(np.float64))[1]  # bit length; exact, 0 for 0
    n_shift = width + 1 - length  # first1_loc_from_MSB
    m = (magnitude << np.clip(24 - length, 0, 23).astype(np.uint32)) & 0x7FFFFF
    e = np.where(tags == Tag.BITS8, b, 127) - n_shift

    small = (tags == Tag.BITS8) | (tags == Tag.BITS16)
    impossible = small & (magnitude != 0) & (e < 1)
    number = s << 31 | (np.clip(e, 0, 255).astype(np.uint32) << 23) | m
    bits = np.where(small & (magnitude != 0) & ~impossible, number, np.uint32(0))
    return np.where(tags == Tag.RAW, vectors, bits).astype(np.uint32), impossible


def pack_block(tags: NDArray[np.uint8], vectors: Bits) -> bytes:
    """Pack the lanes' tag table and data. They have ``2 * ceil(n / 8)`` bytes, and 0..4 bytes per lane."""
    table = np.zeros(-(-len(tags) // wire.GROUP_LANES) * wire.GROUP_LANES, np.uint16)
    table[: len(tags)] = tags
    words = (table.reshape(-1, wire.GROUP_LANES) << TAG_SHIFTS).sum(axis=1)
    data = vectors.astype("<u4").view(np.uint8).reshape(-1, 4)
    kept = np.arange(4) < TAG_BYTES[tags][:, np.newaxis]
    return words.astype("<u2").tobytes() + data[kept].tobytes()


def examine_block(
    block: bytes, count: int, b: int, size: int | None = None
) -> tuple[Bits, NDArray[np.uint8], Fault | None]:
    """Decode a block that may be faulty: lanes ``uint32[count]``, tags ``uint8[count]``, first fault.

    ``block`` holds the present bytes of a block announced as ``size`` bytes (default: all of it). From the
    fault's group on the lanes are zero here, and unspecified in other implementations.
    """
    size = len(block) if size is None else size
    groups = -(-count // wire.GROUP_LANES)
    table_bytes = groups * wire.TAG_WORD_BYTES
    if len(block) < table_bytes:
        nothing = np.zeros(count, np.uint32)
        return nothing, nothing.astype(np.uint8), Fault(len(block), 0, "it ends inside the tag table")

    words = np.frombuffer(block, "<u2", groups)
    tags = ((words[:, np.newaxis] >> TAG_SHIFTS) & 3).reshape(-1).astype(np.uint8)
    sizes = TAG_BYTES[tags]
    ends = np.cumsum(sizes)
    total = int(ends[-1]) if groups else 0

    data = np.zeros(max(total, len(block) - table_bytes) + 4, np.uint8)
    data[: len(block) - table_bytes] = np.frombuffer(block, np.uint8, offset=table_bytes)
    kept = np.arange(4) < sizes[:, np.newaxis]
    vectors = np.where(kept, data[(ends - sizes)[:, np.newaxis] + np.arange(4)], 0).astype(np.uint8)
    bits, impossible = decompress_lanes(tags, np.ascontiguousarray(vectors).view("<u4").reshape(-1), b)

    faults = []
    if tags[count:].any():
        faults.append(Fault(table_bytes - 2, groups - 1, "an absent lane of the last group has a tag"))
    if total > len(block) - table_bytes:
        lane = int(np.argmax(ends > len(block) - table_bytes))
        faults.append(Fault(len(block), lane // wire.GROUP_LANES, "it ends inside the data"))
    if impossible.any():
        lane = int(np.argmax(impossible))
        reason = "the exponent of an 8-bit vector falls below 1"
        faults.append(Fault(table_bytes + int(ends[lane] - sizes[lane]), lane // wire.GROUP_LANES, reason))
    if total < size - table_bytes:
        faults.append(Fault(table_bytes + total, groups, "bytes are left over"))
    fault = min(faults, key=lambda found: found.group, default=None)
    if fault:
        bits[fault.group * wire.GROUP_LANES :] = 0
    return bits[:count], tags[:count], fault


def table_bytes(lanes: int) -> int:
    """Return the size in bytes of the tag table."""
    return -(-lanes // wire.GROUP_LANES) * wire.TAG_WORD_BYTES


def data_bytes(table: Bytes, lanes: int) -> int:
    """Return the bytes of data that a table announces, those of absent lanes included."""
    return int(TAG_BYTES[(table[:, np.newaxis] >> np.arange(0, 8, 2)) & 3].sum())


def block(bits: Bits, p: Coder) -> bytes:
    """Encode lanes as one block."""
    return pack_block(*compress_lanes(bits, p))


def examine(data: bytes, lanes: int, p: Coder) -> tuple[Bits, Fault | None]:
    """Decode a block; return its lanes and its first fault."""
    bits, _, fault = examine_block(data, lanes, p.b)
    return bits, fault


def lossy(bits: Bits, p: Coder) -> Bits:
    """Return what decompressing the compressed lanes gives."""
    return decompress_lanes(*compress_lanes(bits, p), p.b)[0]


def counts(bits: Bits, p: Coder) -> NDArray[np.int64]:
    """Count the lanes with each tag, as ``int64[4]``."""
    return np.bincount(compress_lanes(bits, p)[0], minlength=CLASSES)
