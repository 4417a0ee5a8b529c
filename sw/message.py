# SPDX-License-Identifier: BSD-2-Clause
"""Self-describing messages: a stream with a header, for files and for transports in software.

All numbers are little-endian:

====== ===== ==========================================================================================
offset bytes field
====== ===== ==========================================================================================
0      4     magic ``INCM``
4      1     version, 1
5      1     kind of the payload: 0 fp32 values as they are, 1 a stream of the paper's codec, 2 bfloat16,
             3 a stream of the planes codec
6      3     E0, T, B of the stream, or E0 and two zeros for planes; zero for other kinds
9      1     number of dimensions, 0..32
10     2     scale exponent, signed: the payload holds the values times ``2**scale``
12     4     blocks from one index entry to the next; zero where there is no index
16     8     values
24     8     bytes of payload
32     4     index entries
36     4     CRC-32 (IEEE 802.3, as zlib's) of all other bytes of the message, in their order
40     8 d   the dimensions, whose product is the number of values
       8 i   the index: where each run of that number of blocks starts in the payload
             the payload, up to the end of the message
====== ===== ==========================================================================================

A sender may store the payload uncompressed, as :func:`pack` does if the stream would be longer than the
values.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from . import wire
from .codec import MAX_SCALE, Codec, Index, converted, crc32, scale_exponent
from .wire import CodecParameters

__all__ = ["Header", "Kind", "pack", "parse", "unpack"]

MAGIC = b"INCM"
VERSION = 1
HEADER = struct.Struct("<4sBB3BBhIQQII")
CHECKSUM_OFFSET = HEADER.size - 4
INDEX_BLOCKS = 32
"""Blocks from one index entry to the next, in the messages that :func:`pack` makes."""
MAX_DIMENSIONS = 32


class Kind(IntEnum):
    """The kind of a message's payload."""

    RAW = 0
    """Little-endian fp32 values."""
    INCEPTIONN = 1
    """A stream of the paper's codec."""
    BFLOAT16 = 2
    """The upper halves of fp32 values, rounded to nearest even."""
    PLANES = 3
    """A stream of the planes codec."""


STREAMS = {Kind.INCEPTIONN: wire.CODECS["paper"], Kind.PLANES: wire.CODECS["planes"]}
"""The codec of each kind of stream."""
_KINDS = {spec.name: kind for kind, spec in STREAMS.items()}


@dataclass(frozen=True)
class Header:
    """A message's header, checked; ``payload`` is a view of the message's bytes."""

    kind: Kind
    shape: tuple[int, ...]
    scale: int
    parameters: CodecParameters | None
    index: Index | None
    payload: memoryview

    @property
    def count(self) -> int:
        """Number of values."""
        return math.prod(self.shape)

    @property
    def codec(self) -> Codec:
        """A codec for the stream. Raises ``ValueError`` if the payload is none."""
        if self.parameters is None:
            raise ValueError(f"the payload is {self.kind.name}, not a stream")
        return Codec.from_parameters(self.parameters)


def pack(
    x: Any,
    codec: Codec | None,
    scale: int | Literal["auto"] | None = None,
    *,
    kind: Kind | None = None,
    dtype: str | None = None,
) -> memoryview:
    """Return the message of an array of any shape, as bytes in memory of their own.

    Values are float32, float16 or bfloat16; ``dtype`` "bfloat16" takes uint16 as its patterns.

    ``scale`` is an exponent as in :class:`~inceptionn.Codec`; ``"auto"`` uses
    :func:`~inceptionn.codec.scale_exponent`, and None does not scale. ``kind`` is the kind of the payload. By
    default it is ``RAW`` if ``codec`` is None or the stream is not shorter than the values, else the codec's,
    ``INCEPTIONN`` or ``PLANES``. Passing one of these two always makes a stream. For bfloat16 values
    ``BFLOAT16``, which is exact, takes the place of ``RAW``.

    Errors are those of ``Codec.compress``.
    """
    values = np.asarray(x)
    shape = values.shape
    if len(shape) > MAX_DIMENSIONS:
        raise ValueError(f"values must have {MAX_DIMENSIONS} dimensions at most, not {len(shape)}")
    plain = Kind.BFLOAT16 if values.dtype.name in ("bfloat16", "uint16") else Kind.RAW
    optional = kind is None
    if kind is None:
        kind = plain if codec is None else Kind.INCEPTIONN
    if kind in STREAMS:
        if codec is None:
            raise ValueError("a stream needs a codec, not None")
        kind = _KINDS[codec.codec]
    kind = Kind(kind)
    exponent = 0
    if scale == "auto":
        exponent = scale_exponent(values, wire.DEFAULT_CODEC if codec is None else codec.codec, dtype=dtype)
    elif scale is not None:
        exponent = scale

    message, numbers, index = memoryview(b""), (0, 0, 0), b""
    start = HEADER.size + 8 * len(shape)
    if kind in STREAMS:
        assert codec is not None
        indexed = values.size > INDEX_BLOCKS * wire.STREAM_LANES
        first = start + 8 * indexed * -(-values.size // (INDEX_BLOCKS * wire.STREAM_LANES))
        # The stream is written where it stays; memory that it does not need is never touched.
        message = _memory(first + codec.max_compressed_size(values.size))
        stream = codec.compress(values, message[first:], scale=exponent, dtype=dtype)
        size = len(stream)
        if indexed:
            index = codec.index(stream, values.size, INDEX_BLOCKS).offsets
        if optional and size >= values.size * (2 if plain == Kind.BFLOAT16 else 4):
            kind, index = plain, b""
        else:
            numbers = wire.three_numbers(codec.parameters)
            message = message[: first + size]
    if kind not in STREAMS:
        exponent = 0
        into = "bfloat16" if kind == Kind.BFLOAT16 else None
        payload = converted(values, into, patterns=dtype == "bfloat16").reshape(-1)
        size = payload.nbytes
        message = _memory(start + size)
        message[start:] = payload.view(np.uint8).data
    message[: HEADER.size] = HEADER.pack(
        MAGIC, VERSION, kind, *numbers, len(shape), exponent, INDEX_BLOCKS if index else 0,
        values.size, size, len(index) // 8, 0,
    )  # fmt: skip
    message[HEADER.size : len(message) - size] = struct.pack(f"<{len(shape)}Q", *shape) + index
    checksum = crc32(message[HEADER.size :], crc32(message[:CHECKSUM_OFFSET]))
    struct.pack_into("<I", message, CHECKSUM_OFFSET, checksum)
    return message


def parse(buffer: Any) -> Header:
    """Check a message's header, lengths and checksum.

    ``ValueError`` states the fault and its byte offset. The payload is not decoded.
    """
    view = memoryview(buffer).cast("B")
    if len(view) < HEADER.size:
        raise _malformed(len(view), "it ends inside the header")
    magic, version, kind, e0, t, b, dimensions, scale, blocks, count, size, entries, checksum = HEADER.unpack(
        view[: HEADER.size]
    )
    if magic != MAGIC:
        raise _malformed(0, f"the magic is {magic!r}, not {MAGIC!r}")
    if version != VERSION:
        raise _malformed(4, f"the version is {version}, not {VERSION}")
    if kind not in tuple(Kind):
        raise _malformed(5, f"the payload is of unknown kind {kind}")
    if dimensions > MAX_DIMENSIONS:
        raise _malformed(9, f"it has {dimensions} dimensions, {MAX_DIMENSIONS} at most")
    start = HEADER.size + 8 * dimensions + 8 * entries
    if len(view) != start + size:
        raise _malformed(min(len(view), start + size), f"it has {len(view)} bytes, not {start + size}")
    found = crc32(view[HEADER.size :], crc32(view[:CHECKSUM_OFFSET]))
    if found != checksum:
        raise _malformed(CHECKSUM_OFFSET, f"the checksum is {checksum:#010x}, not {found:#010x}")

    # The checksum is right: errors found from here on are the sender's, not damage.
    shape = struct.unpack_from(f"<{dimensions}Q", view, HEADER.size)
    if math.prod(shape) != count:
        raise _malformed(HEADER.size, f"the dimensions {shape} do not make {count} values")
    spec = STREAMS.get(kind)
    parameters = None if spec is None else spec.from_numbers((e0, t, b))
    if parameters is not None and not (parameters.valid and wire.three_numbers(parameters) == (e0, t, b)):
        raise _malformed(6, f"the codec's parameters are not valid: {parameters}")
    if parameters is None and (e0 or t or b or scale or entries):
        raise _malformed(6, f"a payload of kind {Kind(kind).name} has neither codec, scale nor index")
    if not -MAX_SCALE <= scale <= MAX_SCALE:
        raise _malformed(10, f"the scale exponent is {scale}, beyond {MAX_SCALE}")
    if bool(blocks) != bool(entries) or (blocks and entries != -(-count // (blocks * wire.STREAM_LANES))):
        raise _malformed(12, f"{entries} index entries, one for {blocks} blocks, do not fit {count} values")
    if kind not in STREAMS and size != count * (4 if kind == Kind.RAW else 2):
        raise _malformed(24, f"{size} bytes of payload do not hold {count} values")
    offsets = bytes(view[HEADER.size + 8 * dimensions : start])
    index = Index(offsets, blocks) if entries else None
    return Header(Kind(kind), shape, scale, parameters, index, view[start:])


def unpack(buffer: Any, dtype: Any = None) -> NDArray[Any]:
    """Return the values of a message, in their shape, as float32 or ``dtype``.

    ``dtype`` as in `Codec.decompress`; "bfloat16" means uint16 patterns.
    Raises ``ValueError`` for a malformed message or stream, naming the byte offset.
    """
    header = parse(buffer)
    if header.kind in STREAMS:
        codec, index = header.codec, header.index
        values = codec.decompress(header.payload, header.count, scale=header.scale, index=index, dtype=dtype)
    else:
        stored = np.frombuffer(header.payload, "<f4" if header.kind == Kind.RAW else "<u2")
        values = converted(stored, dtype, patterns=True)
    return values.reshape(header.shape)


def _memory(size: int) -> memoryview:
    """Allocate ``size`` bytes; unlike a bytearray's they are not set to zero."""
    return np.empty(size, np.uint8).data


def _malformed(at: int, reason: str) -> ValueError:
    return ValueError(f"malformed message at byte {at}: {reason}")
