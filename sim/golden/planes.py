# SPDX-License-Identifier: BSD-2-Clause
"""The planes codec of wire-format.md sections 9 and 10: the counterpart of :mod:`.codec` for version 2.

A lane is rounded to a whole number of steps, in real numbers; a group of 8 fp32 or 16 bf16 lanes is stored as
bit planes. Lanes are passed as their bits: ``uint32``, or ``uint16`` where ``kind`` is ``wire.BF16_LANES``.
Plain NumPy over whole arrays; nothing here is shared with the native codec or the RTL, which are judged
against it.

=============================  ===============================================================
lanes                          :func:`compress_lanes`, :func:`decompress_lanes`
groups                         :func:`group_codes`
block                          :func:`pack_block`, :func:`examine_block`, :func:`compress_block`,
                               :func:`decompress_block`
stream                         :func:`compress`, :func:`decompress`
what the other side will see   :func:`lossy`, :func:`histogram`
=============================  ===============================================================
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inceptionn import wire
from inceptionn.wire import FP32_LANES, LaneType

from .codec import DEFAULT_ERROR_BOUND, Bits, Fault, MalformedError, bits_of

Codes = NDArray[np.uint8]
Words = NDArray[Any]
"""Lanes as their bits: ``uint32``, or ``uint16`` of bf16."""


@dataclass(frozen=True)
class Lanes:
    """Quantised lanes, arrays of one length.

    ``z``: ``uint32``, the integers whose bits the planes hold, 0 for raw lanes. ``raw``: ``bool``, lanes
    that keep their bits. ``bits``: ``uint32`` or ``uint16``, what every lane comes back as.
    """

    z: Bits
    raw: NDArray[np.bool_]
    bits: Words


def checked(e0: int) -> int:
    """Return ``e0``. Raise ``ValueError`` if it is not 113..126."""
    if not wire.PlanesParameters(e0).valid:
        raise ValueError(f"E0 of the planes codec must be 113..126, not {e0!r}")
    return e0


def _e0(error_bound: float) -> int:
    return wire.planes_parameters(wire.error_bound_exponent(error_bound)).e0


def _step(e0: int) -> float:
    """Return D, twice the error bound."""
    return math.ldexp(1.0, e0 - wire.EXPONENT_BIAS + 1)


def _code_plane_bytes(groups: int) -> int:
    return -(-groups // wire.CODE_WORD_GROUPS) * wire.CODE_WORD_BYTES


def _word(kind: LaneType) -> np.dtype[Any]:
    """Return the little-endian word of a lane."""
    return np.dtype(f"<u{kind.bytes}")


def _words(x: NDArray[Any], kind: LaneType) -> Words:
    """Return the bits of an array: float32, or uint16 that hold bf16. ``TypeError`` for another type."""
    if kind is FP32_LANES:
        return bits_of(x)
    if not isinstance(x, np.ndarray) or x.dtype != np.uint16:
        raise TypeError(f"bf16 values must be a uint16 array, not {getattr(x, 'dtype', type(x))}")
    return np.ascontiguousarray(x).reshape(-1)


# Lanes


def compress_lanes(bits: Words, e0: int, kind: LaneType = FP32_LANES) -> Lanes:
    """Quantise ``uint32[n]`` or ``uint16[n]``: to the nearest multiple of the step, ties away from zero."""
    below = np.uint32(wire.MANTISSA_BITS - kind.mantissa_bits)  # bits that fp32 has and the lane has not
    word = bits.astype(np.uint32) << below
    s = word >> 31
    magnitude = word & 0x7FFFFFFF
    raw = magnitude >= (checked(e0) + wire.RAW_EXPONENT) << wire.MANTISSA_BITS
    x = np.where(raw, 0, magnitude).astype(np.uint32).view(np.float32).astype(np.float64)
    q = np.floor(x / _step(e0) + 0.5).astype(np.uint32)  # exact: 24 bits times a power of two, and a half
    z = np.where(q > 0, 2 * q - s, 0).astype(np.uint32)
    return Lanes(z, raw, np.where(raw, bits, decompress_lanes(z, e0, kind)).astype(_word(kind)))


def decompress_lanes(z: Bits, e0: int, kind: LaneType = FP32_LANES) -> Words:
    """Return the values' bits of integers of up to 15 bits. bf16 drops the bits beyond its significand."""
    s = z & 1
    q = (z >> 1) + s
    word = s << 31 | (q * _step(checked(e0))).astype(np.float32).view(np.uint32)
    return (word >> np.uint32(wire.MANTISSA_BITS - kind.mantissa_bits)).astype(_word(kind))


# Blocks


def _in_groups(lanes: NDArray[Any], kind: LaneType) -> NDArray[Any]:
    """Arrange lanes as ``[G, group_lanes]``, absent lanes zero."""
    groups = np.zeros((-(-len(lanes) // kind.group_lanes), kind.group_lanes), lanes.dtype)
    groups.reshape(-1)[: len(lanes)] = lanes
    return groups


def group_codes(lanes: Lanes, kind: LaneType = FP32_LANES) -> Codes:
    """Return the code, 0..15, of each group, as ``uint8[G]``."""
    every_bit = np.bitwise_or.reduce(_in_groups(lanes.z, kind), axis=1)
    width = np.frexp(every_bit.astype(np.float64))[1]  # bit length; exact, 0 for 0
    raw = _in_groups(lanes.raw, kind).any(axis=1)
    return np.where(raw, wire.RAW_CODE, np.minimum(width, 14)).astype(np.uint8)


def pack_block(lanes: Lanes, kind: LaneType = FP32_LANES) -> bytes:
    """Pack the lanes' code plane and data."""
    codes = group_codes(lanes, kind)
    nibbles = np.zeros(2 * _code_plane_bytes(len(codes)), np.uint8)
    nibbles[: len(codes)] = codes
    z = _in_groups(lanes.z, kind)
    each_bit = (z[:, np.newaxis, :] >> np.arange(kind.planes, dtype=np.uint32)[:, np.newaxis]) & 1
    planes = np.packbits(each_bit.astype(np.uint8), axis=2, bitorder="little").reshape(len(codes), -1)
    words = _in_groups(lanes.bits.astype(_word(kind)), kind).view(np.uint8)
    data = [
        words[group].tobytes() if code == wire.RAW_CODE else planes[group, : kind.code_bytes[code]].tobytes()
        for group, code in enumerate(codes.tolist())
    ]
    return (nibbles[0::2] | nibbles[1::2] << 4).tobytes() + b"".join(data)


def read_codes(block: bytes, groups: int) -> Codes:
    """Read every nibble of a whole code plane, as ``uint8[4 * ceil(G / 4)]``.

    Those past the last group are included.
    """
    plane = np.frombuffer(block, np.uint8, _code_plane_bytes(groups))
    return np.stack((plane & 15, plane >> 4), axis=1).reshape(-1)


def examine_block(
    block: bytes, count: int, e0: int, size: int | None = None, kind: LaneType = FP32_LANES
) -> tuple[Words, Codes, Fault | None]:
    """Decode a block that may be faulty: lanes ``[count]``, codes ``uint8[G]``, first fault.

    ``block`` holds the present bytes of a block announced as ``size`` bytes (default: all of it). From the
    fault's group on the lanes are zero here, and unspecified in other implementations.
    """
    size = len(block) if size is None else size
    groups = -(-count // kind.group_lanes)
    plane_bytes = _code_plane_bytes(groups)
    if len(block) < plane_bytes:
        nothing = np.zeros(count, _word(kind)), np.zeros(groups, np.uint8)
        return *nothing, Fault(len(block), 0, "it ends inside the code plane")
    nibbles = read_codes(block, groups)
    codes, rest = nibbles[:groups], nibbles[groups:]
    sizes = np.array(kind.code_bytes)[codes]
    ends = np.cumsum(sizes)
    starts, total = ends - sizes, int(sizes.sum())

    available = len(block) - plane_bytes
    data = np.zeros(max(total, available) + wire.BURST_BYTES, np.uint8)
    data[:available] = np.frombuffer(block, np.uint8, offset=plane_bytes)
    places = np.arange(wire.BURST_BYTES)
    own = np.where(places < sizes[:, np.newaxis], data[starts[:, np.newaxis] + places], 0).astype(np.uint8)
    planes = own[:, : kind.planes * kind.group_lanes // 8].reshape(groups, kind.planes, -1)
    each_bit = np.unpackbits(planes, axis=2, bitorder="little").astype(np.uint32)
    z = (each_bit << np.arange(kind.planes, dtype=np.uint32)[:, np.newaxis]).sum(axis=1, dtype=np.uint32)
    is_raw = (codes == wire.RAW_CODE)[:, np.newaxis]
    bits = np.where(is_raw, own.view(_word(kind)), decompress_lanes(z, e0, kind)).reshape(-1)

    faults = []
    if rest.any():
        nibble = groups + int(np.argmax(rest > 0))
        first = (groups - 1) // wire.CODE_WORD_GROUPS * wire.CODE_WORD_GROUPS
        faults.append(Fault(nibble // 2, first, "the code plane goes on after the last group"))
    if total > available:
        cut = int(np.argmax(ends > available))
        faults.append(Fault(len(block), cut, "it ends inside the data"))
    elif bits[count:].any():
        used = count - (groups - 1) * kind.group_lanes
        absent = own[-1].copy()
        if codes[-1] == wire.RAW_CODE:
            absent[: used * kind.bytes] = 0
        else:
            of_a_plane = (1 << kind.group_lanes) - (1 << used)
            absent.view(f"<u{kind.group_lanes // 8}")[:] &= of_a_plane
        at = plane_bytes + int(starts[-1]) + int(np.argmax(absent > 0))
        faults.append(Fault(at, groups - 1, "an absent lane of the last group is not zero"))
    if total < size - plane_bytes:
        faults.append(Fault(plane_bytes + total, groups, "bytes are left over"))
    fault = min(faults, key=lambda found: found.group, default=None)
    if fault:
        bits[fault.group * kind.group_lanes :] = 0
    return bits[:count], codes, fault


def compress_block(x: NDArray[Any], e0: int, kind: LaneType = FP32_LANES) -> bytes:
    """Make the block of a float32 array of 1..2304 values, or of 1..4608 bf16 as uint16.

    The array has any shape, and is read in C order. Raises ``ValueError`` for another count or an E0 outside
    113..126, ``TypeError`` for another type.
    """
    words = _words(x, kind)
    if not 1 <= len(words) <= kind.max_lanes:
        raise ValueError(f"a block has 1..{kind.max_lanes} lanes, not {len(words)}")
    return pack_block(compress_lanes(words, e0, kind), kind)


def decompress_block(block: bytes, count: int, e0: int, kind: LaneType = FP32_LANES) -> NDArray[Any]:
    """Decompress the ``float32[count]`` of a block, or its bf16 as ``uint16[count]``.

    ``MalformedError`` (a ``ValueError``) names the byte offset.
    """
    if not 1 <= count <= kind.max_lanes:
        raise ValueError(f"a block has 1..{kind.max_lanes} lanes, not {count}")
    words, _, fault = examine_block(bytes(block), count, e0, None, kind)
    if fault:
        raise MalformedError("block", fault.offset, fault.reason)
    return words.view(np.float32) if kind is FP32_LANES else words


# Streams


def compress(x: NDArray[np.float32], error_bound: float = DEFAULT_ERROR_BOUND) -> bytes:
    """Compress a float32 array of any shape to a stream of blocks of 2048 lanes each, back to back.

    Raises ``ValueError`` for a bound that is not 2**-k with k = 1..14, ``TypeError`` for another type of
    array.
    """
    e0, bits, step = _e0(error_bound), bits_of(x), wire.STREAM_LANES
    return b"".join(pack_block(compress_lanes(bits[i : i + step], e0)) for i in range(0, len(bits), step))


def decompress(stream: bytes, count: int, error_bound: float = DEFAULT_ERROR_BOUND) -> NDArray[np.float32]:
    """Decompress the ``float32[count]`` of a stream made with the same bound.

    ``MalformedError`` (a ``ValueError``) names the byte offset from the start of the stream.
    """
    e0 = _e0(error_bound)
    if isinstance(count, bool) or not isinstance(count, int | np.integer):
        raise TypeError(f"count must be an integer, not {count!r}")
    if count < 0:
        raise ValueError(f"count must not be negative: {count!r}")
    stream = bytes(stream)
    lanes = [np.zeros(0, np.uint32)]
    at = 0
    for first in range(0, int(count), wire.STREAM_LANES):
        lanes_here = min(int(count) - first, wire.STREAM_LANES)
        groups = -(-lanes_here // wire.GROUP_LANES)
        size = _code_plane_bytes(groups)
        if len(stream) >= at + size:
            size += int(np.array(wire.CODE_BYTES)[read_codes(stream[at:], groups)[:groups]].sum())
        bits, _, fault = examine_block(stream[at : at + size], lanes_here, e0)
        if fault:
            raise MalformedError("stream", at + fault.offset, fault.reason)
        lanes.append(bits)
        at += size
    if at != len(stream):
        raise MalformedError("stream", at, "bytes are left over")
    return np.concatenate(lanes).view(np.float32)


def lossy(
    x: NDArray[Any], error_bound: float = DEFAULT_ERROR_BOUND, kind: LaneType = FP32_LANES
) -> NDArray[Any]:
    """Return what decompressing the compressed ``x`` gives, in its shape and type."""
    return compress_lanes(_words(x, kind), _e0(error_bound), kind).bits.view(x.dtype).reshape(x.shape)


def histogram(
    x: NDArray[Any], error_bound: float = DEFAULT_ERROR_BOUND, kind: LaneType = FP32_LANES
) -> NDArray[np.int64]:
    """Count the groups of ``x`` with each code, as ``int64[16]``."""
    codes = group_codes(compress_lanes(_words(x, kind), _e0(error_bound), kind), kind)
    return np.bincount(codes, minlength=wire.CODES).astype(np.int64)
