# SPDX-License-Identifier: BSD-2-Clause
"""The codec of wire-format.md sections 1 and 2, to be read beside Algorithms 2 and 3 of the paper.

Lanes and blocks are those of :mod:`inceptionn.codec.numpy_paper`, written from the page. Nothing here is
shared with the native codec or the RTL, which are judged against it.

=============================  ==========================================================
lanes (section 1)              :func:`compress_lanes`, :func:`decompress_lanes`
block (section 2)              :func:`compress_block`, :func:`decompress_block`
stream (section 2)             :func:`compress`, :func:`decompress`
what the other side will see   :func:`lossy`, :func:`histogram`
=============================  ==========================================================
"""

from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inceptionn import wire
from inceptionn.codec import numpy_paper
from inceptionn.codec.coder import Coder
from inceptionn.codec.numpy_paper import (
    compress_lanes,
    decompress_lanes,
    examine_block,
    pack_block,
)
from inceptionn.codec.numpy_types import Bits, Fault
from inceptionn.wire import Parameters, Tag

__all__ = [
    "Bits", "Fault", "MalformedError", "compress", "compress_block", "compress_lane", "compress_lanes",
    "decompress", "decompress_block", "decompress_lane", "decompress_lanes", "examine_block", "histogram",
    "lossy", "pack_block",
]  # fmt: skip

DEFAULT_ERROR_BOUND = 2.0**-wire.DEFAULT_K


class MalformedError(ValueError):
    """A block or stream that no encoder makes. ``offset`` is the byte at which it is detected."""

    def __init__(self, unit: str, offset: int, reason: str):
        super().__init__(f"malformed {unit} at byte {offset}: {reason}")
        self.offset = offset


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
    return decoded(stream, count, numpy_paper, Coder.of(resolve(error_bound, mode, params)))


def decoded(stream: bytes, count: int, coder: ModuleType, numbers: Coder) -> NDArray[np.float32]:
    """Decompress the ``float32[count]`` of a stream, whose blocks ``coder`` knows; see `decompress`."""
    if isinstance(count, bool) or not isinstance(count, int | np.integer):
        raise TypeError(f"count must be an integer, not {count!r}")
    if count < 0:
        raise ValueError(f"count must not be negative: {count!r}")
    stream = bytes(stream)
    lanes = [np.zeros(0, np.uint32)]
    at = 0
    for first in range(0, int(count), wire.STREAM_LANES):
        lanes_here = min(int(count) - first, wire.STREAM_LANES)
        size = coder.table_bytes(lanes_here)
        table = np.frombuffer(stream[at : at + size], np.uint8)
        if len(table) == size:
            size += coder.data_bytes(table, lanes_here)
        bits, fault = coder.examine(stream[at : at + size], lanes_here, numbers)
        if fault:
            raise MalformedError("stream", at + fault.offset, fault.reason)
        lanes.append(bits)
        at += size
    if at != len(stream):
        raise MalformedError("stream", at, "bytes are left over")
    return np.concatenate(lanes).view(np.float32)


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
