# SPDX-License-Identifier: BSD-2-Clause
"""Self-describing messages: a stream with a header, for files and for transports in software.

All numbers are little-endian:

====== ===== ==========================================================================================
offset bytes field
====== ===== ==========================================================================================
0      4     magic ``INCM``
4      1     version, 1 or 2
5      1     kind of the payload: 0 fp32 values as they are, 1 a stream of the paper's codec, 2 bfloat16,
             3 a stream of the planes codec, 4 float16
6      3     E0, T, B of the stream, or E0 and two zeros for planes; zero for other kinds
9      1     number of dimensions, 0..32
10     2     scale, signed: the payload holds the values times ``2**scale``
12     4     blocks from one index entry to the next; zero where there is no index
16     8     values
24     8     bytes of payload
32     4     index entries
36     4     CRC-32 (IEEE 802.3, as zlib's) of all other bytes of the message, in their order
40     2     in version 2: sections s, 0..4096, of a stream
42     1     in version 2: type of the sender's values: 0 float32, 1 float16, 2 bfloat16
43     5     in version 2: zero
       8 d   the dimensions, whose product is the number of values
       8 s   the sections' lengths, whose sum is the number of values
       s     the sections' scales, signed; the one in the header is then 0. Zeros follow, up to a
             multiple of 8
       8 i   the index: where each run of that number of blocks starts in the payload
             the payload, up to the end of the message
====== ===== ==========================================================================================

Version 1 lacks bytes 40 to 47 and sections; it is written for float32 values without sections. A sender may
store the payload uncompressed, as :func:`pack` does if the stream would be longer than the values.
"""

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import accumulate
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from . import wire
from .codec import MAX_SCALE, Codec, Index, converted, crc32, scale_exponent
from .codec.scaling import MOST_SECTIONS, Scaling, check_sections
from .wire import CodecName, CodecParameters

__all__ = ["Header", "Kind", "pack", "parse", "unpack"]

MAGIC = b"INCM"
VERSION = 2
HEADER = struct.Struct("<4sBB3BBhIQQII")
EXTENSION = struct.Struct("<HB5s")
TYPES = ("float32", "float16", "bfloat16")
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
    FLOAT16 = 4
    """The nearest float16 values; beyond 65504 infinite."""


STREAMS = {Kind.INCEPTIONN: wire.CODECS["paper"], Kind.PLANES: wire.CODECS["planes"]}
"""The codec of each kind of stream."""
_KINDS = {spec.name: kind for kind, spec in STREAMS.items()}
_PLAIN = {"float32": Kind.RAW, "bfloat16": Kind.BFLOAT16, "float16": Kind.FLOAT16}
"""The kind of payload that holds values of a type exactly."""
_STORED = {Kind.RAW: "<f4", Kind.BFLOAT16: "<u2", Kind.FLOAT16: "<f2"}


@dataclass(frozen=True)
class Header:
    """A message's header, checked; ``payload`` is a view of the message's bytes.

    ``scaling`` holds the scales of the payload's sections. ``dtype`` is the type of the values that were
    packed, as `unpack` takes it. (Version 1 does not tell it for streams.)
    """

    kind: Kind
    shape: tuple[int, ...]
    scaling: Scaling
    parameters: CodecParameters | None
    index: Index | None
    payload: memoryview
    dtype: str = TYPES[0]

    @property
    def count(self) -> int:
        """Number of values."""
        return math.prod(self.shape)

    @property
    def scale(self) -> int | None:
        """The scale of all values. None if sections have several."""
        return self.scaling.common

    @property
    def codec(self) -> Codec:
        """A codec for the stream. Raises ``ValueError`` if the payload is none."""
        if self.parameters is None:
            raise ValueError(f"the payload is {self.kind.name}, not a stream")
        return Codec.from_parameters(self.parameters)


def pack(
    x: Any,
    codec: Codec | CodecName | None,
    scale: int | Literal["auto", "tensor"] | None = None,
    *,
    sections: Sequence[int] | None = None,
    kind: Kind | None = None,
    dtype: str | None = None,
) -> memoryview:
    """Return the message of an array of any shape, as bytes in memory of their own.

    Values are float32, float16 or bfloat16; ``dtype`` "bfloat16" takes uint16 as its patterns. The message
    tells the type: see `Header.dtype`.

    ``codec`` may be a codec's name: that codec with its default bound.
    ``scale`` is as in :class:`~inceptionn.Codec`; ``"auto"`` uses
    :func:`~inceptionn.codec.scale_exponent`, ``"tensor"`` does so in each of ``sections``, the lengths of the
    array's tensors in C order, and None does not scale. ``kind`` is the kind of the payload. By default it is
    ``RAW`` if ``codec`` is None or the stream is not shorter than the values, else the codec's,
    ``INCEPTIONN`` or ``PLANES``. Passing one of these two always makes a stream. For bfloat16 and float16
    values ``BFLOAT16`` and ``FLOAT16``, which are exact, take the place of ``RAW``.

    Errors are those of ``Codec.compress``, for another ``dtype`` too, and ``TypeError`` or ``ValueError`` for
    sections that are not 4096 whole numbers at most, of the sum of the values.
    """
    values = np.asarray(x)
    shape = values.shape
    if isinstance(codec, str):
        codec = Codec(codec=codec)
    if dtype not in (None, "bfloat16"):
        raise ValueError(f"dtype must be None or 'bfloat16' (of a uint16 array), not {dtype!r}")
    if len(shape) > MAX_DIMENSIONS:
        raise ValueError(f"values must have {MAX_DIMENSIONS} dimensions at most, not {len(shape)}")
    lengths = check_sections(scale, sections, values.size)
    name = "bfloat16" if values.dtype == np.uint16 else values.dtype.name
    plain = _PLAIN.get(name, Kind.RAW)
    number = TYPES.index(name) if name in TYPES else 0  # others are refused below
    optional = kind is None
    if kind is None:
        kind = plain if codec is None else Kind.INCEPTIONN
    if kind in STREAMS:
        if codec is None:
            raise ValueError("a stream needs a codec, not None")
        kind = _KINDS[codec.codec]
    kind = Kind(kind)
    if kind in STREAMS:
        assert codec is not None
        message, size = _with_stream(values, codec, scale, lengths, dtype, number)
        if not optional or size < values.size * np.dtype(_STORED[plain]).itemsize:
            return message
        kind = plain
    payload = converted(values, _type_of(kind), patterns=dtype == "bfloat16").reshape(-1)
    if kind == plain:  # as it is: conversion makes signalling NaNs quiet
        payload = np.ascontiguousarray(values).reshape(-1)
    front = _front(shape, number)
    message = _memory(HEADER.size + len(front) + payload.nbytes)
    message[HEADER.size + len(front) :] = payload.view(np.uint8).data
    return _sealed(message, (kind, 0, 0, 0, len(shape), 0, 0, values.size, payload.nbytes, 0), front)


def _type_of(kind: int) -> str:
    """Return the type of the values that a kind of payload holds: float32 for streams."""
    return next((name for name, plain in _PLAIN.items() if plain == kind), TYPES[0])


def _with_stream(
    values: Any, codec: Codec, scale: Any, lengths: list[int] | None, dtype: str | None, number: int
) -> tuple[memoryview, int]:
    """Return the message with a stream, and the stream's size. ``number`` is that of the values' type."""
    shape, common, scales = values.shape, 0, None
    if lengths is not None:
        values, scales = _by_section(values, lengths, codec, dtype)
    else:
        common = scale_exponent(values, codec.codec, dtype=dtype) if scale == "auto" else scale or 0
    front = _front(shape, number, lengths, scales)
    indexed = values.size > INDEX_BLOCKS * wire.STREAM_LANES
    entries = indexed * -(-values.size // (INDEX_BLOCKS * wire.STREAM_LANES))
    start = HEADER.size + len(front) + 8 * entries
    # The stream is written where it stays; memory that it does not need is never touched.
    message = _memory(start + codec.max_compressed_size(values.size))
    size = len(stream := codec.compress(values, message[start:], scale=common, dtype=dtype))
    if indexed:
        front += codec.index(stream, values.size, INDEX_BLOCKS).offsets
    fields = (
        _KINDS[codec.codec], *wire.three_numbers(codec.parameters), len(shape), common,
        INDEX_BLOCKS if indexed else 0, values.size, size, entries,
    )  # fmt: skip
    return _sealed(message[: start + size], fields, front), size


def _by_section(
    values: Any, lengths: Sequence[int], codec: Codec, dtype: str | None
) -> tuple[NDArray[np.float32], list[int]]:
    """Return values scaled by section, as float32, and the sections' scales."""
    scaled = converted(values, patterns=dtype == "bfloat16")
    flat = scaled.reshape(-1)
    parts = zip(lengths, accumulate(lengths), strict=True)
    scales = [scale_exponent(flat[end - length : end], codec.codec) for length, end in parts]
    Scaling.of(scales, lengths).multiply(flat, flat)
    return scaled, scales


def _front(
    shape: tuple[int, ...], number: int, lengths: Sequence[int] | None = None, scales: Any = None
) -> bytes:
    """Return what stands between header and index: extension, dimensions and sections."""
    lengths, scales = lengths or (), scales or ()
    extension = EXTENSION.pack(len(lengths), number, b"") if number or lengths else b""
    sections = struct.pack(_sections(len(lengths)), *lengths, *scales)
    return extension + struct.pack(f"<{len(shape)}Q", *shape) + sections


def _sections(count: int) -> str:
    """Return the layout of a number of sections."""
    return f"<{count}Q{count}b{-count % 8}x"


def _sealed(message: memoryview, fields: tuple[int, ...], front: bytes) -> memoryview:
    """Write header, ``front`` and checksum of a message that holds its payload."""
    extended = len(front) > 8 * (fields[4] + fields[9])
    message[: HEADER.size] = HEADER.pack(MAGIC, 2 if extended else 1, *fields, 0)
    message[HEADER.size : HEADER.size + len(front)] = front
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
    if version not in (1, VERSION):
        raise _malformed(4, f"the version is {version}, not 1 or {VERSION}")
    if kind not in tuple(Kind):
        raise _malformed(5, f"the payload is of unknown kind {kind}")
    if dimensions > MAX_DIMENSIONS:
        raise _malformed(9, f"it has {dimensions} dimensions, {MAX_DIMENSIONS} at most")
    sections, name = _extension(view, kind) if version > 1 else (0, _type_of(kind))
    at = HEADER.size + EXTENSION.size * (version > 1)
    table = at + 8 * dimensions
    start = table + struct.calcsize(_sections(sections)) + 8 * entries
    if len(view) != start + size:
        raise _malformed(min(len(view), start + size), f"it has {len(view)} bytes, not {start + size}")
    found = crc32(view[HEADER.size :], crc32(view[:CHECKSUM_OFFSET]))
    if found != checksum:
        raise _malformed(CHECKSUM_OFFSET, f"the checksum is {checksum:#010x}, not {found:#010x}")

    # The checksum is right: errors found from here on are the sender's, not damage.
    shape = struct.unpack_from(f"<{dimensions}Q", view, at)
    if math.prod(shape) != count:
        raise _malformed(at, f"the dimensions {shape} do not make {count} values")
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
    if kind not in STREAMS and size != count * np.dtype(_STORED[Kind(kind)]).itemsize:
        raise _malformed(24, f"{size} bytes of payload do not hold {count} values")
    scaling = Scaling((scale,)) if not sections else _scaling_of(view, table, sections, scale, count)
    offsets = bytes(view[start - 8 * entries : start])
    index = Index(offsets, blocks) if entries else None
    return Header(Kind(kind), shape, scaling, parameters, index, view[start:], name)


def _extension(view: memoryview, kind: int) -> tuple[int, str]:
    """Return the number of sections and the type of the values that version 2 states."""
    at = HEADER.size
    if len(view) < at + EXTENSION.size:
        raise _malformed(len(view), "it ends inside the header")
    sections, number, zeros = EXTENSION.unpack_from(view, at)
    if sections > MOST_SECTIONS or (sections and kind not in STREAMS):
        raise _malformed(at, f"it has {sections} sections; a stream has {MOST_SECTIONS} at most")
    if number >= len(TYPES):
        raise _malformed(at + 2, f"the values are of unknown type {number}")
    if any(zeros):
        raise _malformed(at + 3, "reserved bytes are not zero")
    return sections, TYPES[number]


def _scaling_of(view: memoryview, at: int, sections: int, scale: int, count: int) -> Scaling:
    """Return the scaling of checked sections."""
    layout = _sections(sections)
    found = struct.unpack_from(layout, view, at)
    lengths, scales = found[:sections], found[sections:]
    if scale:
        raise _malformed(10, f"the scale exponent is {scale}, which sections replace")
    if sum(lengths) != count:
        raise _malformed(at, f"the sections have {sum(lengths)} values, not {count}")
    if any(not -MAX_SCALE <= each <= MAX_SCALE for each in scales):
        raise _malformed(at + 8 * sections, f"a scale exponent is beyond {MAX_SCALE}")
    if view[at : at + struct.calcsize(layout)] != struct.pack(layout, *found):
        raise _malformed(at + 9 * sections, "the bytes after the sections are not zero")
    return Scaling.of(scales, lengths)


def unpack(buffer: Any, dtype: Any = None) -> NDArray[Any]:
    """Return the values of a message, in their shape, as float32 or ``dtype``.

    ``dtype`` as in `Codec.decompress`; "bfloat16" means uint16 patterns.
    Raises ``ValueError`` for a malformed message or stream, naming the byte offset.
    """
    header = parse(buffer)
    if header.kind in STREAMS:
        codec, stream, scale = header.codec, header.payload, header.scaling.common
        if scale is not None:
            values = codec.decompress(stream, header.count, scale=scale, index=header.index, dtype=dtype)
        else:
            values = codec.decompress(stream, header.count, index=header.index)
            header.scaling.divide(values)
            values = values if dtype is None else converted(values, dtype)
    else:
        stored = np.frombuffer(header.payload, _STORED[header.kind])
        wanted = converted(stored[:0], dtype, patterns=True).dtype
        values = stored.copy() if wanted == stored.dtype else converted(stored, dtype, patterns=True)
    return values.reshape(header.shape)


def _memory(size: int) -> memoryview:
    """Allocate ``size`` bytes; unlike a bytearray's they are not set to zero."""
    return np.empty(size, np.uint8).data


def _malformed(at: int, reason: str) -> ValueError:
    return ValueError(f"malformed message at byte {at}: {reason}")
