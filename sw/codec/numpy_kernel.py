# SPDX-License-Identifier: BSD-2-Clause
"""What :mod:`inceptionn.native.codec` does, in NumPy: for machines without a compiler at install time.

The functions have the native module's names, arguments and results; :mod:`inceptionn.codec` has checked the
arguments. ``threads`` is ignored. Work goes block by block, so that memory stays small and in the cache.
"""

from __future__ import annotations

from operator import index
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import wire

Bits = NDArray[np.uint32]
Bytes = NDArray[np.uint8]

_TAG_BYTES = np.array(wire.TAG_BYTES, np.uint8)
# Tags of the four lanes of a byte of the tag plane, and the bytes that their vectors take.
_TAGS: Bytes = ((np.arange(256)[:, np.newaxis] >> np.arange(0, 8, 2)) & 3).astype(np.uint8)
_BYTES_OF_FOUR = _TAG_BYTES[_TAGS].sum(axis=1, dtype=np.uint16)
_PLACES = np.array([1, 4, 16, 64], np.uint8)
_BYTE = np.arange(4)
_INFINITY = np.uint32(0x7F800000)
_ONE = np.uint32(wire.EXPONENT_BIAS << wire.MANTISSA_BITS)


def _bits(values: Any) -> Bits:
    return np.frombuffer(values, np.uint32)


def _runs(bits: Bits, scale: int) -> Any:
    """The lanes of each block in turn, times ``2**scale``."""
    for first in range(0, len(bits), wire.STREAM_LANES):
        yield _scaled(bits[first : first + wire.STREAM_LANES], scale)


def _scaled(bits: Bits, scale: int) -> Bits:
    if not scale:
        return bits
    if not -126 <= index(scale) <= 126:
        raise ValueError(f"scale must be -126..126, not {scale}")
    finite = (bits & _INFINITY) != _INFINITY
    with np.errstate(all="ignore"):
        scaled = (bits.view(np.float32) * np.float32(2.0**scale)).view(np.uint32)
    if (finite & ((scaled & _INFINITY) == _INFINITY)).any():
        raise OverflowError(f"a value is too large to be scaled by 2**{scale}")
    return np.where(finite, scaled, bits)


def _tags(bits: Bits, e0: int, t: int) -> Bytes:
    """A lane's class is how many of the three thresholds its magnitude reaches."""
    magnitude = bits & np.uint32(0x7FFFFFFF)
    tags = (magnitude >= np.uint32(e0 << 23)).view(np.uint8) + (magnitude >= np.uint32(t << 23))
    return tags + (magnitude >= _ONE)


def _block(bits: Bits, e0: int, t: int, b: int) -> Bytes:
    tags = _tags(bits, e0, t)
    exponents = (bits >> 23).astype(np.int32) & 0xFF
    shifts = np.clip(np.where(tags == wire.Tag.BITS8, b, wire.EXPONENT_BIAS) - exponents, 0, 31)
    # Left-aligned: the sign in bit 31, the magnitude below it.
    small = (bits << 8 | np.uint32(0x80000000)) >> shifts.astype(np.uint32) | (bits & np.uint32(0x80000000))
    aligned = np.where(tags == wire.Tag.RAW, bits, small).astype("<u4")
    kept = _BYTE >= 4 - _TAG_BYTES[tags][:, np.newaxis]
    four = np.zeros((-(-len(tags) // wire.GROUP_LANES) * 2, 4), np.uint8)
    four.reshape(-1)[: len(tags)] = tags
    plane = (four * _PLACES).sum(axis=1, dtype=np.uint8)
    return np.concatenate((plane, aligned.view(np.uint8).reshape(-1, 4)[kept]))


def compress(x: Any, out: Any, e0: int, t: int, b: int, scale: int, threads: int) -> bytes | int:
    """The stream as bytes, or its size if it is written to ``out``."""
    blocks = (_block(bits, e0, t, b) for bits in _runs(_bits(x), scale))
    if out is None:
        return b"".join(block.tobytes() for block in blocks)
    into = np.frombuffer(memoryview(out).cast("B"), np.uint8)
    if np.may_share_memory(into, _bits(x)):
        raise ValueError("out must not overlap the values")
    at = 0
    for block in blocks:
        if at + len(block) > len(into):
            raise ValueError(f"out is too small for the stream: {len(into)} bytes")
        into[at : at + len(block)] = block
        at += len(block)
    return at


def _values(tags: Bytes, aligned: Bits, b: int) -> tuple[Bits, NDArray[np.bool_]]:
    """fp32 bits of left-aligned vectors, and which of them are impossible."""
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


def _malformed(at: int, reason: str) -> ValueError:
    return ValueError(f"malformed stream at byte {at}: {reason}")


def _decode(stream: Bytes, at: int, lanes: int, b: int) -> tuple[Bits, int]:
    """The lanes of the block at a byte of the stream, and where it ends."""
    plane_end = at + -(-lanes // wire.GROUP_LANES) * wire.TAG_WORD_BYTES
    if plane_end > len(stream):
        raise _malformed(len(stream), "it ends inside the tag plane")
    tags = _TAGS[stream[at:plane_end]].reshape(-1)
    sizes = _TAG_BYTES[tags]
    ends = plane_end + np.cumsum(sizes, dtype=np.int64)
    starts = ends - sizes
    end = int(ends[-1])

    # Bytes of each lane, the last one highest; what is not the lane's is cleared.
    places = ends[:, np.newaxis] + (_BYTE - 4)
    kept = places >= starts[:, np.newaxis]
    four = stream[np.clip(places, 0, len(stream) - 1)] * kept
    bits, impossible = _values(tags, four.view("<u4").reshape(-1).astype(np.uint32), b)

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
        raise _malformed(*min(faults, key=lambda fault: fault[0])[1:])
    return bits[:lanes], end


def decompress(
    stream: Any, out: Any, add: bool, starts: Any, blocks: int,
    e0: int, t: int, b: int, scale: int, threads: int,
) -> None:  # fmt: skip
    """Decode into ``out``, or add to it; ``starts`` (uint64, one for ``blocks`` blocks) is checked."""
    source = np.frombuffer(memoryview(stream).cast("B"), np.uint8)
    into = np.frombuffer(out, np.float32)
    if np.may_share_memory(source, into):
        raise ValueError("out must not overlap the stream")
    starts = None if starts is None else np.frombuffer(starts, "<u8")
    run_lanes = blocks * wire.STREAM_LANES
    if starts is not None and len(starts) != -(-len(into) // run_lanes):
        raise ValueError("the index must hold one offset for each run of blocks")
    at = 0
    for first in range(0, len(into), wire.STREAM_LANES):
        lanes = into[first : first + wire.STREAM_LANES]
        if starts is not None and first % run_lanes == 0 and starts[first // run_lanes] != at:
            raise _malformed(at, "the index does not fit the blocks")
        bits, at = _decode(source, at, len(lanes), b)
        values = _scaled(bits, -scale).view(np.float32)
        if add:
            with np.errstate(all="ignore"):
                lanes += values
        else:
            lanes.view(np.uint32)[:] = values.view(np.uint32)
    if at != len(source):
        raise _malformed(at, "bytes are left over")


def offsets(stream: Any, count: int, blocks: int) -> bytes:
    """Where each run of ``blocks`` blocks starts, as little-endian uint64."""
    source = np.frombuffer(memoryview(stream).cast("B"), np.uint8)
    starts = []
    at = 0
    for number, first in enumerate(range(0, count, wire.STREAM_LANES)):
        if number % blocks == 0:
            starts.append(at)
        lanes = min(count - first, wire.STREAM_LANES)
        plane = source[at : at + -(-lanes // wire.GROUP_LANES) * wire.TAG_WORD_BYTES]
        end = at + -(-lanes // wire.GROUP_LANES) * wire.TAG_WORD_BYTES + int(_BYTES_OF_FOUR[plane].sum())
        if end > len(source):
            raise _malformed(at, "it ends inside the data")
        at = end
    if at != len(source):
        raise _malformed(at, "bytes are left over")
    return np.array(starts, "<u8").tobytes()


def lossy(x: Any, out: Any, e0: int, t: int, b: int, scale: int, threads: int) -> None:
    """Write to ``out``, which may be ``x``, what decompressing the compressed values gives."""
    source, into = _bits(x), np.frombuffer(out, np.uint32)
    same = into.ctypes.data == source.ctypes.data
    if len(into) != len(source) or (not same and np.may_share_memory(into, source)):
        raise ValueError("out must be as large as the values, and the same or elsewhere")
    for number, bits in enumerate(_runs(source, scale)):
        exponents = (bits >> 23).astype(np.int32) & 0xFF
        cleared = np.where(exponents >= t, wire.EXPONENT_BIAS + 8, b + 16) - exponents
        kept = bits & ~((np.uint32(1) << np.clip(cleared, 0, 31).astype(np.uint32)) - np.uint32(1))
        kept = np.where((exponents < e0) | (cleared > wire.MANTISSA_BITS), np.uint32(0), kept)
        kept = np.where(exponents >= wire.EXPONENT_BIAS, bits, kept)
        first = number * wire.STREAM_LANES
        into[first : first + len(bits)] = _scaled(kept, -scale)


def histogram(x: Any, e0: int, t: int, b: int, scale: int, threads: int) -> tuple[int, int, int, int]:
    """How many values have each tag."""
    counts = np.zeros(4, np.int64)
    for bits in _runs(_bits(x), scale):
        counts += np.bincount(_tags(bits, e0, t), minlength=4)
    zero, bits8, bits16, raw = counts.tolist()
    return zero, bits8, bits16, raw


def largest(x: Any) -> int:
    """Bit pattern of the largest finite magnitude; 0 if there is none."""
    found = 0
    for bits in _runs(_bits(x), 0):
        magnitude = bits & np.uint32(0x7FFFFFFF)
        found = max(found, int(np.where(magnitude < _INFINITY, magnitude, np.uint32(0)).max()))
    return found
