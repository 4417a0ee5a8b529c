# SPDX-License-Identifier: BSD-2-Clause
"""The codec of wire-format.md sections 1 and 2, to be read beside Algorithms 2 and 3 of the paper.

Lanes are handled as their 32 bits (``uint32``) throughout: arithmetic on floats would quieten
signalling NaNs. Everything is plain NumPy over whole arrays; nothing here is shared with the native
codec or the RTL, which are judged against it.

=============================  ==========================================================
lanes (section 1)              :func:`compress_lanes`, :func:`decompress_lanes`
block (section 2)              :func:`compress_block`, :func:`decompress_block`
stream (section 2)             :func:`compress`, :func:`decompress`
what the other side will see   :func:`lossy`, :func:`histogram`
=============================  ==========================================================
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inceptionn import wire
from inceptionn.wire import Parameters, Tag

Bits = NDArray[np.uint32]
"""fp32 values as their bit patterns."""

TAG_BYTES = np.array(wire.TAG_BYTES)
TAG_SHIFTS = 2 * np.arange(wire.GROUP_LANES, dtype=np.uint16)
"""The place of each lane's tag in the tag word."""
DEFAULT_ERROR_BOUND = 2.0**-wire.DEFAULT_K


class MalformedError(ValueError):
    """A block or stream that no encoder makes. ``offset`` is the byte at which it is detected."""

    def __init__(self, unit: str, offset: int, reason: str):
        super().__init__(f"malformed {unit} at byte {offset}: {reason}")
        self.offset = offset


@dataclass(frozen=True)
class Fault:
    """The first fault of a block: byte offset, index of the first group it spoils, and what it is."""

    offset: int
    group: int
    reason: str


def bits_of(x: Any) -> Bits:
    """Return the bit patterns ``uint32[n]`` of a float32 array of any shape, in C order.

    ``TypeError`` for anything but a NumPy float32 array.
    """
    if not isinstance(x, np.ndarray):
        raise TypeError(f"values must be a float32 array, not {type(x)!r}")
    if x.dtype != np.float32:
        raise TypeError(f"values must be a float32 array, not {x.dtype}")
    return np.ascontiguousarray(x).reshape(-1).view(np.uint32)


def resolve(error_bound: float, mode: str, params: Parameters | None = None) -> Parameters:
    """Return ``params`` if given, else those of the bound and mode.

    Raises ``ValueError`` if they are not valid.
    """
    if params is None:
        return wire.parameters(wire.error_bound_exponent(error_bound), mode)
    return checked(params)


def checked(params: Parameters) -> Parameters:
    """Return ``params``. Raise ``ValueError`` if hardware would not compress with these numbers."""
    if not params.valid:
        raise ValueError(f"parameters must satisfy 1 <= e0 <= t <= 127 and t <= b <= 255, not {params!r}")
    return params


# Lanes


def compress_lanes(bits: Bits, params: Parameters) -> tuple[NDArray[np.uint8], Bits]:
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


def compress_lane(f: int, params: Parameters) -> tuple[Tag, int]:
    """Apply Algorithm 2 to one lane: 32 bits to tag and vector."""
    tags, vectors = compress_lanes(np.array([f], np.uint32), params)
    return Tag(int(tags[0])), int(vectors[0])


def decompress_lane(tag: int, v: int, b: int) -> int:
    """Apply Algorithm 3 to one lane: tag and vector to 32 bits.

    Raises ``ValueError`` for an impossible vector.
    """
    bits, impossible = decompress_lanes(np.array([tag], np.uint8), np.array([v], np.uint32), b)
    if impossible[0]:
        raise ValueError(f"the exponent of an 8-bit vector at base {b} falls below 1: {v:#04x}")
    return int(bits[0])


# Blocks


def pack_block(tags: NDArray[np.uint8], vectors: Bits) -> bytes:
    """Pack the lanes' tag plane and data. They have ``2 * ceil(n / 8)`` bytes, and 0..4 bytes per lane."""
    plane = np.zeros(-(-len(tags) // wire.GROUP_LANES) * wire.GROUP_LANES, np.uint16)
    plane[: len(tags)] = tags
    words = (plane.reshape(-1, wire.GROUP_LANES) << TAG_SHIFTS).sum(axis=1)
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
    plane_bytes = groups * wire.TAG_WORD_BYTES
    if len(block) < plane_bytes:
        nothing = np.zeros(count, np.uint32)
        return nothing, nothing.astype(np.uint8), Fault(len(block), 0, "it ends inside the tag plane")

    words = np.frombuffer(block, "<u2", groups)
    tags = ((words[:, np.newaxis] >> TAG_SHIFTS) & 3).reshape(-1).astype(np.uint8)
    sizes = TAG_BYTES[tags]
    ends = np.cumsum(sizes)
    total = int(ends[-1]) if groups else 0

    data = np.zeros(max(total, len(block) - plane_bytes) + 4, np.uint8)
    data[: len(block) - plane_bytes] = np.frombuffer(block, np.uint8, offset=plane_bytes)
    kept = np.arange(4) < sizes[:, np.newaxis]
    vectors = np.where(kept, data[(ends - sizes)[:, np.newaxis] + np.arange(4)], 0).astype(np.uint8)
    bits, impossible = decompress_lanes(tags, np.ascontiguousarray(vectors).view("<u4").reshape(-1), b)

    faults = []
    if tags[count:].any():
        faults.append(Fault(plane_bytes - 2, groups - 1, "an absent lane of the last group has a tag"))
    if total > len(block) - plane_bytes:
        lane = int(np.argmax(ends > len(block) - plane_bytes))
        faults.append(Fault(len(block), lane // wire.GROUP_LANES, "it ends inside the data"))
    if impossible.any():
        lane = int(np.argmax(impossible))
        reason = "the exponent of an 8-bit vector falls below 1"
        faults.append(Fault(plane_bytes + int(ends[lane] - sizes[lane]), lane // wire.GROUP_LANES, reason))
    if total < size - plane_bytes:
        faults.append(Fault(plane_bytes + total, groups, "bytes are left over"))
    fault = min(faults, key=lambda found: found.group, default=None)
    if fault:
        bits[fault.group * wire.GROUP_LANES :] = 0
    return bits[:count], tags[:count], fault


def compress_block(x: NDArray[np.float32], params: Parameters) -> bytes:
    """Make the block of a float32 array of 1..2304 values (any shape, C order).

    Raises ``ValueError`` for another count or parameters that are not valid, ``TypeError`` for another type.
    """
    bits = bits_of(x)
    if not 1 <= len(bits) <= wire.MAX_LANES:
        raise ValueError(f"a block has 1..{wire.MAX_LANES} lanes, not {len(bits)}")
    return pack_block(*compress_lanes(bits, checked(params)))


def decompress_block(block: bytes, count: int, b: int) -> NDArray[np.float32]:
    """Decompress the ``float32[count]`` of a block. ``MalformedError`` (a ``ValueError``) names the byte."""
    if not 1 <= count <= wire.MAX_LANES:
        raise ValueError(f"a block has 1..{wire.MAX_LANES} lanes, not {count}")
    if not 0 <= b <= 255:
        raise ValueError(f"the base exponent must be 0..255, not {b!r}")
    bits, _, fault = examine_block(bytes(block), count, b)
    if fault:
        raise MalformedError("block", fault.offset, fault.reason)
    return bits.view(np.float32)


# Streams


def compress(
    x: NDArray[np.float32],
    error_bound: float = DEFAULT_ERROR_BOUND,
    mode: str = wire.DEFAULT_MODE,
    *,
    params: Parameters | None = None,
) -> bytes:
    """Compress a float32 array of any shape to a stream of blocks of 2048 lanes each, back to back.

    ``params`` replaces bound and mode by plain numbers. Raises ``ValueError`` for a bound that is not 2**-k
    with k = 1..14, an unknown mode or invalid numbers, ``TypeError`` for another type of array.
    """
    params = resolve(error_bound, mode, params)
    bits = bits_of(x)
    step = wire.STREAM_LANES
    return b"".join(
        pack_block(*compress_lanes(bits[i : i + step], params)) for i in range(0, len(bits), step)
    )


def decompress(
    stream: bytes,
    count: int,
    error_bound: float = DEFAULT_ERROR_BOUND,
    mode: str = wire.DEFAULT_MODE,
    *,
    params: Parameters | None = None,
) -> NDArray[np.float32]:
    """Decompress the ``float32[count]`` of a stream made with the same bound and mode (or ``params``).

    ``MalformedError`` (a ``ValueError``) names the byte offset from the start of the stream.
    """
    b = resolve(error_bound, mode, params).b
    if isinstance(count, bool) or not isinstance(count, int | np.integer):
        raise TypeError(f"count must be an integer, not {count!r}")
    if count < 0:
        raise ValueError(f"count must not be negative: {count!r}")
    stream = bytes(stream)
    lanes: list[Bits] = []
    at = 0
    for first in range(0, int(count), wire.STREAM_LANES):
        lanes_here = min(int(count) - first, wire.STREAM_LANES)
        plane_bytes = -(-lanes_here // wire.GROUP_LANES) * wire.TAG_WORD_BYTES
        plane = np.frombuffer(stream[at : at + plane_bytes], np.uint8)
        data_bytes = int(TAG_BYTES[(plane[:, np.newaxis] >> np.arange(0, 8, 2)) & 3].sum())
        bits, _, fault = examine_block(stream[at : at + plane_bytes + data_bytes], lanes_here, b)
        if fault:
            raise MalformedError("stream", at + fault.offset, fault.reason)
        lanes.append(bits)
        at += plane_bytes + data_bytes
    if at != len(stream):
        raise MalformedError("stream", at, "bytes are left over")
    return np.concatenate([np.zeros(0, np.uint32), *lanes]).view(np.float32)


def lossy(
    x: NDArray[np.float32],
    error_bound: float = DEFAULT_ERROR_BOUND,
    mode: str = wire.DEFAULT_MODE,
    *,
    params: Parameters | None = None,
) -> NDArray[np.float32]:
    """Return what decompressing the compressed ``x`` gives, in the shape of ``x``."""
    params = resolve(error_bound, mode, params)
    bits, _ = decompress_lanes(*compress_lanes(bits_of(x), params), params.b)
    return bits.view(np.float32).reshape(x.shape)


def histogram(
    x: NDArray[np.float32],
    error_bound: float = DEFAULT_ERROR_BOUND,
    mode: str = wire.DEFAULT_MODE,
    *,
    params: Parameters | None = None,
) -> NDArray[np.int64]:
    """Count the lanes of ``x`` with each tag, as ``int64[4]`` (the paper's Table III)."""
    tags, _ = compress_lanes(bits_of(x), resolve(error_bound, mode, params))
    return np.bincount(tags, minlength=4).astype(np.int64)
