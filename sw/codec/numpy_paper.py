# SPDX-License-Identifier: BSD-2-Clause
"""Blocks of the paper's codec in NumPy (wire-format.md sections 1 and 2); see :mod:`.numpy_kernel`."""

import numpy as np
from numpy.typing import NDArray

from .. import wire
from .coder import Coder
from .numpy_types import Bits, Bytes, malformed

CLASSES = 4
_TAG_BYTES = np.array(wire.TAG_BYTES, np.uint8)
# Tags of the four lanes of a byte of the tag plane, and the bytes that their vectors take.
_TAGS: Bytes = ((np.arange(256)[:, np.newaxis] >> np.arange(0, 8, 2)) & 3).astype(np.uint8)
_BYTES_OF_FOUR = _TAG_BYTES[_TAGS].sum(axis=1, dtype=np.uint16)
_PLACES = np.array([1, 4, 16, 64], np.uint8)
_BYTE = np.arange(4)
_ONE = np.uint32(wire.EXPONENT_BIAS << wire.MANTISSA_BITS)


def plane_bytes(lanes: int) -> int:
    """Return the size in bytes of the tag plane."""
    return -(-lanes // wire.GROUP_LANES) * wire.TAG_WORD_BYTES


def data_bytes(plane: Bytes, lanes: int) -> int:
    """Return the bytes of data that a plane announces, those of absent lanes included."""
    return int(_BYTES_OF_FOUR[plane].sum())


def _tags(bits: Bits, p: Coder) -> Bytes:
    """Return each lane's class: how many of the three thresholds its magnitude reaches."""
    magnitude = bits & np.uint32(0x7FFFFFFF)
    tags = (magnitude >= np.uint32(p.e0 << 23)).view(np.uint8) + (magnitude >= np.uint32(p.t << 23))
    return tags + (magnitude >= _ONE)


def counts(bits: Bits, p: Coder) -> NDArray[np.int64]:
    """Count the lanes with each tag, as ``int64[4]``."""
    return np.bincount(_tags(bits, p), minlength=CLASSES)


def block(bits: Bits, p: Coder) -> Bytes:
    """Encode lanes as one block."""
    tags = _tags(bits, p)
    exponents = (bits >> 23).astype(np.int32) & 0xFF
    shifts = np.clip(np.where(tags == wire.Tag.BITS8, p.b, wire.EXPONENT_BIAS) - exponents, 0, 31)
    # Left-aligned: the sign in bit 31, the magnitude below it.
    small = (bits << 8 | np.uint32(0x80000000)) >> shifts.astype(np.uint32) | (bits & np.uint32(0x80000000))
    aligned = np.where(tags == wire.Tag.RAW, bits, small).astype("<u4")
    kept = _BYTE >= 4 - _TAG_BYTES[tags][:, np.newaxis]
    four = np.zeros((-(-len(tags) // wire.GROUP_LANES) * 2, 4), np.uint8)
    four.reshape(-1)[: len(tags)] = tags
    plane = (four * _PLACES).sum(axis=1, dtype=np.uint8)
    return np.concatenate((plane, aligned.view(np.uint8).reshape(-1, 4)[kept]))


def _values(tags: Bytes, aligned: Bits, b: int) -> tuple[Bits, NDArray[np.bool_]]:
    """Return the fp32 bits of left-aligned vectors, and which vectors are impossible."""
    magnitude = aligned & np.uint32(0x7FFFFFFF)
    # At most 15 leading bits are set, so the conversion is exact and its exponent is the first one's place.
    number = magnitude.astype(np.float32).view(np.uint32)
    place = (number >> 23).astype(np.int32) - wire.EXPONENT_BIAS
    exponents = np.where(tags == wire.Tag.BITS8, b, wire.EXPONENT_BIAS) - (31 - place)
    small = (tags != wire.Tag.RAW) & (magnitude != 0)
    impossible = small & (exponents < 1)
    sign, mantissa = aligned & np.uint32(0x80000000), number & np.uint32(0x7FFFFF)
    bits = sign | exponents.astype(np.uint32) << 23 | mantissa
    bits = np.where(small & ~impossible, bits, np.uint32(0))
    return np.where(tags == wire.Tag.RAW, aligned, bits), impossible


def decode(stream: Bytes, at: int, lanes: int, p: Coder) -> tuple[Bits, int]:
    """Decode the block at a byte of the stream; return its lanes and its end. ``ValueError`` if malformed."""
    plane_end = at + plane_bytes(lanes)
    if plane_end > len(stream):
        raise malformed(len(stream), "it ends inside the tag plane")
    tags = _TAGS[stream[at:plane_end]].reshape(-1)
    sizes = _TAG_BYTES[tags]
    ends = plane_end + np.cumsum(sizes, dtype=np.int64)
    starts = ends - sizes
    end = int(ends[-1])

    # Bytes of each lane, the last one highest; what is not the lane's is cleared.
    places = ends[:, np.newaxis] + (_BYTE - 4)
    kept = places >= starts[:, np.newaxis]
    four = stream[np.clip(places, 0, len(stream) - 1)] * kept
    bits, impossible = _values(tags, four.view("<u4").reshape(-1).astype(np.uint32), p.b)

    # The first group with a fault names it; in one group: absent lanes, cut data, impossible vectors.
    groups = len(tags) // wire.GROUP_LANES
    faults = []
    if tags[lanes:].any():
        faults.append((groups - 1, plane_end - 2, "an absent lane of the last group has a tag"))
    if end > len(stream):
        cut = int(np.argmax(ends > len(stream)))
        faults.append((cut // wire.GROUP_LANES, len(stream), "it ends inside the data"))
        impossible[cut:] = False
    if impossible.any():
        lane = int(np.argmax(impossible))
        reason = "the exponent of an 8-bit vector falls below 1"
        faults.append((lane // wire.GROUP_LANES, int(starts[lane]), reason))
    if faults:
        raise malformed(*min(faults, key=lambda fault: fault[0])[1:])
    return bits[:lanes], end


def lossy(bits: Bits, p: Coder) -> Bits:
    """Return what decompressing the compressed lanes gives."""
    exponents = (bits >> 23).astype(np.int32) & 0xFF
    cleared = np.where(exponents >= p.t, wire.EXPONENT_BIAS + 8, p.b + 16) - exponents
    kept = bits & ~((np.uint32(1) << np.clip(cleared, 0, 31).astype(np.uint32)) - np.uint32(1))
    kept = np.where((exponents < p.e0) | (cleared > wire.MANTISSA_BITS), np.uint32(0), kept)
    return np.where(exponents >= wire.EXPONENT_BIAS, bits, kept)
