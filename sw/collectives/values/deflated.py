# SPDX-License-Identifier: BSD-2-Clause
"""A lossless stage after a codec: what its streams repeat is not sent twice."""

from __future__ import annotations

import zlib
from contextlib import suppress
from copy import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...codec.stream_codec import StreamCodec, stream_in
from ...transport.base import bytes_of
from ...wire import CodecName
from .stream_codec import check_codec

_library: Any = zlib
with suppress(ImportError):
    from isal import isal_zlib as _library

Lanes = NDArray[np.float32]

_RAW = -15
"""Windows of 32 KiB, without zlib's header and checksum, for which TCP has its own."""
_AS_IT_IS, _DEFLATED = 0, 1


def _deflated(stream: NDArray[np.uint8]) -> bytes:
    """Return a stream in the format of DEFLATE (RFC 1951).

    Streams of a codec repeat bytes, but hardly strings: zlib only counts bytes, which is its fastest way with
    a gain. ISA-L, where the package ``isal`` is installed, finds both and takes a third of the time.
    """
    if _library is not zlib:
        found: bytes = _library.compress(stream, 1, _RAW)
        return found
    coder = zlib.compressobj(1, zlib.DEFLATED, _RAW, 9, zlib.Z_HUFFMAN_ONLY)
    return coder.compress(stream.data) + coder.flush()


class Deflated(StreamCodec):
    """A codec whose streams are sent deflated (RFC 1951), with the same values: ``Deflated(Codec(2**-5))``.

    For slow links. The coarser the bound, and the more of the values are nearly zero, the more it saves.
    Deflating takes as long as sending at 1 to 3 Gbit/s. NICs have none of it, so the path is "software".

    A stream begins with a byte that tells whether the rest is deflated, or as the codec made it if that is
    shorter. O(size) in time and memory. All methods and properties are otherwise those of ``codec``, as are
    sums. Raises as `check_codec`, and ``TypeError`` for a codec that is deflated already.
    """

    def __init__(self, codec: StreamCodec | CodecName = "planes") -> None:
        self.codec = check_codec(codec)
        if isinstance(self.codec, Deflated):
            raise TypeError(f"the codec is deflated already: {self.codec.name}")

    @property
    def name(self) -> str:
        return f"{self.codec.name}, deflated"

    @property
    def absolute_bound(self) -> float | None:
        return self.codec.absolute_bound

    @property
    def sums_exactly(self) -> bool:
        return self.codec.sums_exactly

    @property
    def sums_in_double(self) -> bool:
        return self.codec.sums_in_double

    @property
    def scales_streams(self) -> bool:
        return self.codec.scales_streams

    def max_compressed_size(self, count: int) -> int:
        return 1 + self.codec.max_compressed_size(count)

    def compress(self, x: Any, out: Any = None) -> memoryview:
        most = self.codec.max_compressed_size(x.size)
        room = np.empty(most, np.uint8)
        size = stream_in(room, self.codec, self.codec.compress(x, room), x, most)
        return packed(room[:size], out)

    def decompress(self, stream: Any, count: int, out: Lanes | None = None) -> Lanes:
        return self.codec.decompress(self._unpacked(stream, count), count, out)

    def decompress_add(self, stream: Any, accumulator: Lanes, addend: Lanes | None = None) -> Lanes:
        inner = self._unpacked(stream, accumulator.size)
        return self.codec.decompress_add(inner, accumulator, addend)

    def compress_sum(self, stream: Any, addend: Lanes, out: Any) -> memoryview:
        inner, most = self._unpacked(stream, addend.size), self.codec.max_compressed_size(addend.size)
        room = np.empty(most, np.uint8)
        size = stream_in(room, self.codec, self.codec.compress_sum(inner, addend, room), addend, most)
        return packed(room[:size], out)

    def lossy(self, x: Any, out: Lanes | None = None) -> Lanes:
        return self.codec.lossy(x, out)

    def feed_back(self, x: Any, residual: Lanes, out: Lanes | None = None, *, decay: float = 1.0) -> Lanes:
        return self.codec.feed_back(x, residual, out, decay=decay)

    def largest_exponent(self, largest: float) -> int | None:
        return self.codec.largest_exponent(largest)

    def scaled(self, scale: int, dtype: str | None = None) -> Deflated:
        return self._of(self.codec.scaled(scale, dtype))

    def summing(self, scale: int = 0, dtype: str | None = None) -> Deflated:
        return self._of(self.codec.summing(scale, dtype))

    def _of(self, codec: StreamCodec) -> Deflated:
        found = copy(self)
        found.codec = codec  # made by one that was checked
        return found

    def _unpacked(self, stream: Any, count: int) -> memoryview | bytes:
        """Return the codec's own stream of ``count`` values. ``ValueError`` for a malformed one."""
        view = bytes_of(stream)
        mark = view[0] if view.nbytes else None
        if mark == _AS_IT_IS:
            return view[1:]
        if mark != _DEFLATED:
            raise ValueError("malformed stream at byte 0: it does not say whether it is deflated")
        most, inflater = self.codec.max_compressed_size(count), _library.decompressobj(_RAW)
        try:
            inner: bytes = inflater.decompress(view[1:], most + 1)
        except (zlib.error, _library.error) as error:
            raise ValueError(f"malformed stream: it cannot be inflated: {error}") from None
        if len(inner) > most or not inflater.eof or inflater.unused_data:
            raise ValueError(f"malformed stream: it does not inflate to a stream of {count} values")
        return inner

    def __repr__(self) -> str:
        return f"Deflated({self.codec!r})"


def packed(stream: NDArray[np.uint8], out: Any = None) -> memoryview:
    """Return a codec's stream deflated, in ``out`` if given, or as it is where that is shorter."""
    shorter = _deflated(stream)
    mark, data = (_DEFLATED, shorter) if len(shorter) < stream.size else (_AS_IT_IS, stream.data)
    size = 1 + len(data)
    view = bytes_of(bytearray(size) if out is None else out, writable=True)[:size]
    if view.nbytes < size:
        raise ValueError(f"out is too small for the stream: {view.nbytes} bytes")
    view[0] = mark
    view[1:] = data
    return view
