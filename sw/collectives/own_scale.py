# SPDX-License-Identifier: BSD-2-Clause
"""Codecs whose streams carry their scale."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..codec.stream_codec import StreamCodec, stream_in
from ..wire import CodecName
from .agreement import largest_exponent
from .settings import Scale
from .values.stream_codec import check_codec

Floats = NDArray[np.float32]


class OwnScale(StreamCodec):
    """A codec with an absolute bound, as one of the collectives. Every stream begins with its scale, an int8.

    ``scale`` "auto" brings the largest magnitude of each array into [0.5, 1), or in ``planes`` (0.5, 1].
    Every bound keeps this value, so lossy values are not changed again. Raises ``ValueError`` for a malformed
    stream.

    With ``planes``, what arrives of an array are whole multiples of its step (`Codec.summing`), at most
    2^(k-1) of them with "auto". So fp32 sums of N arrays do not depend on their order as long as the largest
    scale exceeds the smallest by at most 25 - k - log2 N: 13 with 2^-10 and 4 arrays, whose largest values
    may then differ by a factor of 2^13.
    """

    def __init__(self, codec: StreamCodec, scale: Scale) -> None:
        self.codec, self.scale = codec, scale

    @property
    def name(self) -> str:
        return f"{self.codec.name}, scale {self.scale}"

    @property
    def sums_in_double(self) -> bool:
        return self.codec.sums_in_double

    def _scale_for(self, values: Floats) -> int:
        if self.scale == "auto":
            return -(largest_exponent(values, self.codec) or 0)
        return int(self.scale or 0)

    def max_compressed_size(self, count: int) -> int:
        """Return the largest size of a stream in bytes."""
        return 1 + self.codec.max_compressed_size(count)

    def compress(self, x: Any, out: Any = None) -> memoryview:
        """Compress a float32 array, into the writable buffer ``out`` if given; return the stream."""
        values = np.ascontiguousarray(x, np.float32)
        view = memoryview(bytearray(self.max_compressed_size(values.size)) if out is None else out).cast("B")
        scale = self._scale_for(values)
        view[:1] = scale.to_bytes(1, "little", signed=True)
        codec, most = self.codec.summing(scale), self.codec.max_compressed_size(values.size)
        room = np.frombuffer(view[1:], np.uint8)
        return view[: 1 + stream_in(room, codec, codec.compress(values, view[1:]), values, most)]

    @staticmethod
    def _split(stream: Any) -> tuple[memoryview, int]:
        view = memoryview(stream).cast("B")
        if not view.nbytes:
            raise ValueError("malformed stream at byte 0: it has no scale")
        return view[1:], int.from_bytes(view[:1], "little", signed=True)

    def decompress(self, stream: Any, count: int, out: Floats | None = None) -> Floats:
        """Decompress float32[count], into ``out`` if given. Raises ``ValueError`` for a malformed stream."""
        rest, scale = self._split(stream)
        return self.codec.scaled(scale).decompress(rest, count, out)

    def decompress_add(self, stream: Any, accumulator: Floats, addend: Floats | None = None) -> Floats:
        """Add a stream to ``accumulator``, float32 of the same size.

        With ``addend`` it becomes ``addend`` plus the stream.
        """
        rest, scale = self._split(stream)
        return self.codec.scaled(scale).decompress_add(rest, accumulator, addend)

    def lossy(self, x: Any, out: Floats | None = None) -> Floats:
        """Return the values that a receiver of ``x`` gets, in the shape of ``x``. ``out`` may be ``x``."""
        values = np.ascontiguousarray(x, np.float32)
        return self.codec.summing(self._scale_for(values)).lossy(values, out)


def with_scale(codec: StreamCodec | CodecName, scale: Scale) -> StreamCodec:
    """Give a codec with an absolute bound its scale, unless that is None. Others are returned unchanged.

    Raises as `check_codec`.
    """
    found = check_codec(codec)
    return found if scale is None or found.absolute_bound is None else OwnScale(found, scale)
