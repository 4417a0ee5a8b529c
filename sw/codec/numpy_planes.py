# SPDX-License-Identifier: BSD-2-Clause
"""Lanes and blocks of the planes codec (wire-format.md sections 9 and 10), beside :mod:`.numpy_paper`.

A lane is rounded to a whole number of steps, in real numbers; a group of 8 fp32 or 16 bf16 lanes is stored as
bit planes. Lanes are passed as their bits: ``uint32``, or ``uint16`` where ``kind`` is ``wire.BF16_LANES``.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import wire
from ..wire import FP32_LANES, LaneType
from .coder import Coder
from .numpy_types import Bits, Bytes, Fault

CLASSES = wire.CODES
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


def step_of(e0: int) -> float:
    """Return D, twice the error bound."""
    return math.ldexp(1.0, checked(e0) - wire.EXPONENT_BIAS + 1)


def code_table_bytes(groups: int) -> int:
    """Return the size in bytes of the code table of some groups."""
    return -(-groups // wire.CODE_WORD_GROUPS) * wire.CODE_WORD_BYTES


def _word(kind: LaneType) -> np.dtype[Any]:
    """Return the little-endian word of a lane."""
    return np.dtype(f"<u{kind.bytes}")


def is_raw(magnitude: Bits, e0: int) -> NDArray[np.bool_]:
    """Tell which lanes keep their bits, from the bits of their magnitudes in fp32, ``uint32[n]``."""
    return magnitude >= (checked(e0) + wire.RAW_EXPONENT) << wire.MANTISSA_BITS


def compress_lanes(bits: Words, e0: int, kind: LaneType = FP32_LANES) -> Lanes:
    """Quantise ``uint32[n]`` or ``uint16[n]``: to the nearest multiple of the step, ties away from zero."""
    below = np.uint32(wire.MANTISSA_BITS - kind.mantissa_bits)  # bits that fp32 has and the lane has not
    word = bits.astype(np.uint32) << below
    s = word >> 31
    magnitude = word & np.uint32(0x7FFFFFFF)
    raw = is_raw(magnitude, e0)
    x = np.where(raw, 0, magnitude).astype(np.uint32).view(np.float32).astype(np.float64)
    q = np.floor(x / step_of(e0) + 0.5).astype(np.uint32)  # exact: 24 bits times a power of two, and a half
    z = np.where(q > 0, 2 * q - s, 0).astype(np.uint32)
    return Lanes(z, raw, np.where(raw, bits, decompress_lanes(z, e0, kind)).astype(_word(kind)))


def decompress_lanes(z: Bits, e0: int, kind: LaneType = FP32_LANES) -> Words:
    """Return the values' bits of integers of up to 15 bits. bf16 drops the bits beyond its significand."""
    s = z & 1
    q = (z >> 1) + s
    word = s << 31 | (q * step_of(checked(e0))).astype(np.float32).view(np.uint32)
    return (word >> np.uint32(wire.MANTISSA_BITS - kind.mantissa_bits)).astype(_word(kind))


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
    """Pack the lanes' code table and data."""
    codes = group_codes(lanes, kind)
    nibbles = np.zeros(2 * code_table_bytes(len(codes)), np.uint8)
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
    """Read every nibble of a whole code table, as ``uint8[4 * ceil(G / 4)]``.

    Those past the last group are included.
    """
    table = np.frombuffer(block, np.uint8, code_table_bytes(groups))
    return np.stack((table & 15, table >> 4), axis=1).reshape(-1)


def examine_block(
    block: bytes, count: int, e0: int, size: int | None = None, kind: LaneType = FP32_LANES
) -> tuple[Words, Codes, Fault | None]:
    """Decode a block that may be faulty: lanes ``[count]``, codes ``uint8[G]``, first fault.

    ``block`` holds the present bytes of a block announced as ``size`` bytes (default: all of it). From the
    fault's group on the lanes are zero here, and unspecified in other implementations.
    """
    size = len(block) if size is None else size
    groups = -(-count // kind.group_lanes)
    table_bytes = code_table_bytes(groups)
    if len(block) < table_bytes:
        nothing = np.zeros(count, _word(kind)), np.zeros(groups, np.uint8)
        return *nothing, Fault(len(block), 0, "it ends inside the code table")
    nibbles = read_codes(block, groups)
    codes, rest = nibbles[:groups], nibbles[groups:]
    sizes = np.array(kind.code_bytes)[codes]
    ends = np.cumsum(sizes)
    starts, total = ends - sizes, int(sizes.sum())

    available = len(block) - table_bytes
    data = np.zeros(max(total, available) + wire.BURST_BYTES, np.uint8)
    data[:available] = np.frombuffer(block, np.uint8, offset=table_bytes)
    places = np.arange(wire.BURST_BYTES)
    stored = np.where(places < sizes[:, np.newaxis], data[starts[:, np.newaxis] + places], 0).astype(np.uint8)
    planes = stored[:, : kind.planes * kind.group_lanes // 8].reshape(groups, kind.planes, -1)
    each_bit = np.unpackbits(planes, axis=2, bitorder="little").astype(np.uint32)
    z = (each_bit << np.arange(kind.planes, dtype=np.uint32)[:, np.newaxis]).sum(axis=1, dtype=np.uint32)
    is_raw = (codes == wire.RAW_CODE)[:, np.newaxis]
    bits = np.where(is_raw, stored.view(_word(kind)), decompress_lanes(z, e0, kind)).reshape(-1)

    faults = []
    if rest.any():
        nibble = groups + int(np.argmax(rest > 0))
        first = (groups - 1) // wire.CODE_WORD_GROUPS * wire.CODE_WORD_GROUPS
        faults.append(Fault(nibble // 2, first, "the code table goes on after the last group"))
    if total > available:
        cut = int(np.argmax(ends > available))
        faults.append(Fault(len(block), cut, "it ends inside the data"))
    elif bits[count:].any():
        used = count - (groups - 1) * kind.group_lanes
        absent = stored[-1].copy()
        if codes[-1] == wire.RAW_CODE:
            absent[: used * kind.bytes] = 0
        else:
            of_a_plane = (1 << kind.group_lanes) - (1 << used)
            absent.view(f"<u{kind.group_lanes // 8}")[:] &= of_a_plane
        at = table_bytes + int(starts[-1]) + int(np.argmax(absent > 0))
        faults.append(Fault(at, groups - 1, "an absent lane of the last group is not zero"))
    if total < size - table_bytes:
        faults.append(Fault(table_bytes + total, groups, "bytes are left over"))
    fault = min(faults, key=lambda found: found.group, default=None)
    if fault:
        bits[fault.group * kind.group_lanes :] = 0
    return bits[:count], codes, fault


def table_bytes(lanes: int) -> int:
    """Return the size in bytes of the code table."""
    return code_table_bytes(-(-lanes // wire.GROUP_LANES))


def data_bytes(table: Bytes, lanes: int) -> int:
    """Return the bytes of data that a table announces; nibbles after the last group do not count."""
    groups = -(-lanes // wire.GROUP_LANES)
    return int(np.array(wire.CODE_BYTES)[read_codes(table.tobytes(), groups)[:groups]].sum())


def block(bits: Bits, p: Coder) -> bytes:
    """Encode lanes as one block."""
    return pack_block(compress_lanes(bits, p.e0))


def examine(data: bytes, lanes: int, p: Coder) -> tuple[Bits, Fault | None]:
    """Decode a block; return its lanes and its first fault."""
    bits, _, fault = examine_block(data, lanes, p.e0)
    return bits, fault


def lossy(bits: Bits, p: Coder) -> Bits:
    """Return what decompressing the compressed lanes gives."""
    return compress_lanes(bits, p.e0).bits


def counts(bits: Bits, p: Coder) -> NDArray[np.int64]:
    """Count the groups of lanes with each code, as ``int64[16]``."""
    return np.bincount(group_codes(compress_lanes(bits, p.e0)), minlength=CLASSES)
