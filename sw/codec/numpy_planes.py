# SPDX-License-Identifier: BSD-2-Clause
"""Blocks of the planes codec in NumPy (wire-format.md section 9); see :mod:`.numpy_kernel`."""

import numpy as np
from numpy.typing import NDArray

from .. import wire
from .coder import Coder
from .numpy_types import Bits, Bytes, malformed

CLASSES = wire.CODES
_CODE_BYTES = np.array(wire.CODE_BYTES, np.uint8)
_BYTES_OF_TWO = (_CODE_BYTES[np.arange(256) & 15] + _CODE_BYTES[np.arange(256) >> 4]).astype(np.uint16)
_BYTE = np.arange(wire.BURST_BYTES)
_INFINITY, _NAN = np.uint32(0x7F800000), np.uint32(0x7FC00000)
_PLANES = 16
"""Bytes that the planes of a group take before the unused ones are left out; the last one is zero."""


def plane_bytes(lanes: int) -> int:
    """Return the size in bytes of the code plane."""
    return -(-lanes // (wire.GROUP_LANES * wire.CODE_WORD_GROUPS)) * wire.CODE_WORD_BYTES


def data_bytes(plane: Bytes, lanes: int) -> int:
    """Return the bytes of data that a plane announces; nibbles after the last group do not count."""
    groups = -(-lanes // wire.GROUP_LANES)
    alone = _CODE_BYTES[plane[groups // 2 :][: groups % 2] & 15]
    return int(_BYTES_OF_TWO[plane[: groups // 2]].sum() + alone.sum())


def _quantised(bits: Bits, p: Coder) -> tuple[NDArray[np.uint16], Bits]:
    """Return each lane's integer, and the word to which it decodes. A raw lane has 0 and its own word."""
    magnitude = bits & np.uint32(0x7FFFFFFF)
    d = (magnitude >> 23).astype(np.int32) - p.e0
    raw, kept = d >= wire.RAW_EXPONENT, d >= 0
    below = (23 - np.clip(d, 0, wire.RAW_EXPONENT)).astype(np.uint32)  # the place of half a step
    half = np.uint32(1) << below
    q = (np.uint32(1 << 23) + (bits & np.uint32(0x7FFFFF)) + half) >> (below + np.uint32(1))
    z = np.where(kept & ~raw, 2 * q - (bits >> 31), np.uint32(0)).astype("<u2")
    # A carry of the addition correctly increments the exponent. For d = 0 the exponent bits are kept.
    cleared = np.minimum(below + np.uint32(1), np.uint32(23))
    words = ((magnitude + half) >> cleared << cleared) | (bits & np.uint32(0x80000000))
    return z, np.where(raw, bits, np.where(kept, words, np.uint32(0)))


def _grouped(z: NDArray[np.uint16], words: Bits, p: Coder) -> tuple[Bytes, Bytes]:
    """Return the code of each group, and 32 bytes per group, of which the first ones are its data."""
    groups = -(-len(words) // wire.GROUP_LANES)
    lanes = np.zeros((2, groups * wire.GROUP_LANES), np.uint32)
    lanes[0, : len(z)], lanes[1, : len(words)] = z, words
    matrix = lanes[0].astype("<u2").view(np.uint8).reshape(groups, wire.GROUP_LANES, 2)
    rows = np.unpackbits(matrix, axis=2, bitorder="little").transpose(0, 2, 1)
    data = np.zeros((groups, wire.BURST_BYTES), np.uint8)
    data[:, :_PLANES] = np.packbits(rows, axis=2, bitorder="little")[:, :, 0]
    width = ((data[:, :_PLANES] > 0) * np.arange(1, _PLANES + 1)).max(axis=1)
    is_raw = (lanes[1] & np.uint32(0x7FFFFFFF)) >= np.uint32((p.e0 + wire.RAW_EXPONENT) << 23)
    raw = (is_raw & (lanes[0] == 0)).reshape(groups, wire.GROUP_LANES).any(axis=1)
    data[raw] = lanes[1].astype("<u4").view(np.uint8).reshape(groups, wire.BURST_BYTES)[raw]
    return np.where(raw, wire.RAW_CODE, np.minimum(width, 14)).astype(np.uint8), data


def counts(bits: Bits, p: Coder) -> NDArray[np.int64]:
    """Count the groups with each code, as ``int64[16]``."""
    return np.bincount(_grouped(*_quantised(bits, p), p)[0], minlength=CLASSES)


def block(bits: Bits, p: Coder) -> Bytes:
    """Encode lanes as one block."""
    codes, data = _grouped(*_quantised(bits, p), p)
    nibbles = np.zeros(2 * plane_bytes(len(bits)), np.uint8)
    nibbles[: len(codes)] = codes
    kept = _BYTE < _CODE_BYTES[codes][:, np.newaxis]
    return np.concatenate((nibbles[0::2] | nibbles[1::2] << 4, data[kept]))


def decode(stream: Bytes, at: int, lanes: int, p: Coder) -> tuple[Bits, int]:
    """Decode the block at a byte of the stream; return its lanes and its end.

    ``ValueError`` as :func:`malformed`. The first group with a fault names it; a word of the code plane that
    goes on counts as a fault of its first group.
    """
    plane_end = at + plane_bytes(lanes)
    if plane_end > len(stream):
        raise malformed(len(stream), "it ends inside the code plane")
    plane = stream[at:plane_end]
    nibbles = np.stack((plane & 15, plane >> 4), axis=1).reshape(-1)
    groups = -(-lanes // wire.GROUP_LANES)
    codes, absent = nibbles[:groups], nibbles[groups:]
    sizes = _CODE_BYTES[codes]
    ends = plane_end + np.cumsum(sizes, dtype=np.int64)
    starts, end = ends - sizes, int(ends[-1])
    cut = int(np.argmax(ends > len(stream))) if end > len(stream) else groups
    if absent.any() and cut >= (groups - 1) // wire.CODE_WORD_GROUPS * wire.CODE_WORD_GROUPS:
        nibble = groups + int(np.argmax(absent > 0))
        raise malformed(at + nibble // 2, "the code plane goes on after the last group")
    if cut < groups:
        raise malformed(len(stream), "it ends inside the data")

    places = np.minimum(starts[:, np.newaxis] + _BYTE, len(stream) - 1)
    data = stream[places] * (sizes[:, np.newaxis] > _BYTE)
    raw = codes == wire.RAW_CODE
    rows = np.unpackbits(data[:, :_PLANES, np.newaxis], axis=2, bitorder="little").transpose(0, 2, 1)
    two_bytes = np.ascontiguousarray(np.packbits(rows, axis=2, bitorder="little"))
    z = two_bytes.view("<u2")[:, :, 0].astype(np.int32)
    steps = (z >> 1) ^ -(z & 1)
    step = np.uint32((p.e0 + 1) << 23).view(np.float32)
    bits = (steps.astype(np.float32) * step).view(np.uint32)
    bits[raw] = data[raw].view("<u4")
    flat = bits.reshape(-1)
    if flat[lanes:].any():
        there = lanes - (groups - 1) * wire.GROUP_LANES
        bits_of_absent = data[-1] >> there if not raw[-1] else data[-1] * (there * wire.LANE_BYTES <= _BYTE)
        first = int(starts[-1]) + int(np.argmax(bits_of_absent > 0))
        raise malformed(first, "an absent lane of the last group is not zero")
    return flat[:lanes], end


def lossy(bits: Bits, p: Coder) -> Bits:
    """Return what decompressing the compressed lanes gives."""
    return _quantised(bits, p)[1]


def settled_raw(bits: Bits, p: Coder) -> Bits:
    """Bring raw lanes onto the lattice: the nearest multiples of the step, and one NaN. Others stay."""
    magnitude = bits & np.uint32(0x7FFFFFFF)
    below = np.clip(p.e0 + 24 - (magnitude >> 23).astype(np.int32), 0, 24 - wire.RAW_EXPONENT)
    cleared = below.astype(np.uint32)
    rounded = (magnitude + (np.uint32(1) << cleared >> 1)) >> cleared << cleared
    large = np.where(magnitude > _INFINITY, _NAN, rounded | (bits & np.uint32(0x80000000)))
    raw = magnitude >= np.uint32((p.e0 + wire.RAW_EXPONENT) << 23)
    return np.where(raw, large, bits)
