# SPDX-License-Identifier: BSD-2-Clause
"""The planes codec of wire-format.md sections 9 and 10: the counterpart of :mod:`.codec` for version 2.

A lane is rounded to a whole number of steps, in real numbers; a group of 8 fp32 or 16 bf16 lanes is stored as
bit planes. Lanes are passed as their bits: ``uint32``, or ``uint16`` where ``kind`` is ``wire.BF16_LANES``.
Lanes and blocks are those of :mod:`inceptionn.codec.numpy_planes`, written from the page. Nothing here is
shared with the native codec or the RTL, which are judged against it.

=============================  ===============================================================
lanes                          :func:`compress_lanes`, :func:`decompress_lanes`
groups                         :func:`group_codes`
block                          :func:`pack_block`, :func:`examine_block`, :func:`compress_block`,
                               :func:`decompress_block`
stream                         :func:`compress`, :func:`decompress`
what the other side will see   :func:`lossy`, :func:`histogram`
=============================  ===============================================================
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from inceptionn import wire
from inceptionn.codec import numpy_planes
from inceptionn.codec.coder import Coder
from inceptionn.codec.numpy_planes import (
    Codes,
    Lanes,
    Words,
    checked,
    compress_lanes,
    decompress_lanes,
    examine_block,
    group_codes,
    pack_block,
)
from inceptionn.wire import FP32_LANES, LaneType

from .codec import DEFAULT_ERROR_BOUND, MalformedError, bits_of, decoded

__all__ = [
    "Codes", "Lanes", "Words", "checked", "compress", "compress_block", "compress_lanes", "decompress",
    "decompress_block", "decompress_lanes", "examine_block", "group_codes", "histogram", "lossy",
    "pack_block",
]  # fmt: skip


def _e0(error_bound: float) -> int:
    return wire.planes_parameters(wire.error_bound_exponent(error_bound)).e0


def _words(x: NDArray[Any], kind: LaneType) -> Words:
    """Return the bits of an array: float32, or uint16 that hold bf16. ``TypeError`` for another type."""
    if kind is FP32_LANES:
        return bits_of(x)
    if not isinstance(x, np.ndarray) or x.dtype != np.uint16:
        raise TypeError(f"bf16 values must be a uint16 array, not {getattr(x, 'dtype', type(x))}")
    return np.ascontiguousarray(x).reshape(-1)


# Blocks


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
    return decoded(stream, count, numpy_planes, Coder.of(wire.PlanesParameters(_e0(error_bound))))


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
