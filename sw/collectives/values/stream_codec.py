# SPDX-License-Identifier: BSD-2-Clause
"""`StreamCodec`: what a codec must have for the software path, and for commands with ``--with``."""

from abc import abstractmethod
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ...codec import Codec

Lanes = NDArray[np.float32]


class StreamCodec(Protocol):
    """The interface of a codec for the software path, such as `inceptionn.Codec` or `BFloat16`.

    A codec of your own is a subclass with ``name``, `max_compressed_size`, `compress` and `decompress`, as in
    ``examples/own_codec.py``. The other methods are made from these. Any other class needs all of
    them. Values are C-contiguous float32 arrays, streams any contiguous bytes. All methods are O(size).

    A codec must be idempotent in value: ``lossy(lossy(x)) == lossy(x)``. It may be a `SummingCodec` as well.
    `examine` tests all this.
    """

    @property
    def name(self) -> str:
        """The codec with its settings, as text. Ranks compare it: equal names mean equal streams."""

    @abstractmethod
    def max_compressed_size(self, count: int) -> int:
        """Return the largest size in bytes of a stream of ``count`` values."""

    @abstractmethod
    def compress(self, x: Any, out: Any = None) -> bytes | memoryview:
        """Compress ``x``, of any shape; return new bytes, or the part of the buffer ``out`` that is used.

        ``max_compressed_size(x.size)`` bytes of ``out`` are always enough.
        """

    @abstractmethod
    def decompress(self, stream: Any, count: int, out: Lanes | None = None) -> Lanes:
        """Decompress float32[count]. If ``out``, of the same size, is given, it is filled and returned.

        Raises ``ValueError`` for a malformed stream, or one with another count.
        """

    def decompress_add(self, stream: Any, accumulator: Lanes, addend: Lanes | None = None) -> Lanes:
        """Add a stream to an array of the same size and return the array.

        With ``addend``, which may be the accumulator, the array becomes ``addend`` plus the stream. Raises
        the errors of `decompress`.
        """
        return add_decompressed(self, stream, accumulator, addend)

    def lossy(self, x: Any, out: Lanes | None = None) -> Lanes:
        """Return the values that a receiver of ``x`` gets, in the shape of ``x``. ``out`` may be ``x``."""
        back = self.decompress(self.compress(x), x.size)
        if out is None:
            return back.reshape(x.shape)
        np.copyto(out, back.reshape(out.shape))
        return out


@runtime_checkable
class SummingCodec(StreamCodec, Protocol):
    """A codec that can also do what most steps of a ring need without a sum in memory."""

    def compress_sum(self, stream: Any, addend: Lanes, out: Any) -> memoryview:
        """Compress, into ``out``, the sum of ``addend`` and another stream's values.

        Returns the stream that `decompress_add` and `compress` would make.
        """


def add_decompressed(codec: StreamCodec, stream: Any, accumulator: Lanes, addend: Lanes | None) -> Lanes:
    """Do `StreamCodec.decompress_add` for a codec that decompresses, then adds. Needs O(size) of memory."""
    values = codec.decompress(stream, accumulator.size).reshape(accumulator.shape)
    return np.add(accumulator if addend is None else addend, values, out=accumulator)


_METHODS = ("max_compressed_size", "compress", "decompress", "decompress_add", "lossy")


def check_codec(codec: Any) -> StreamCodec:
    """Return a codec: the given one, or an `inceptionn.Codec` by its name, with its default error bound.

    ``ValueError`` for a name of none; ``TypeError`` for another object, with the names of all that it lacks.
    """
    if isinstance(codec, str):
        return Codec(codec=codec)  # type: ignore[arg-type]
    if isinstance(codec, type):
        raise TypeError(f"codec must be an object, such as {codec.__name__}(), not the class")
    missing = [name for name in _METHODS if not callable(getattr(codec, name, None))]
    if not isinstance(getattr(codec, "name", None), str):
        missing.append("name (a str)")
    if missing:
        raise TypeError(
            f"codec {type(codec).__name__} lacks {', '.join(missing)}: make it a subclass of "
            "inceptionn.collectives.StreamCodec"
        )
    found: StreamCodec = codec
    return found


def examine(codec: StreamCodec) -> None:
    """Test a codec with some arrays. Raise ``TypeError``, or ``ValueError`` for a property that fails."""
    check_codec(codec)
    values = np.random.default_rng(1).normal(scale=0.01, size=3000).astype(np.float32)
    for x in (values, values[:1], values[:0], np.zeros(100, np.float32)):
        room = bytearray(codec.max_compressed_size(x.size))
        stream = bytes(codec.compress(x))
        fits = len(stream) <= len(room)
        promises = {"compress makes at most max_compressed_size bytes": fits}
        same = fits and bytes(codec.compress(x, room)) == stream == bytes(room[: len(stream)])
        promises["compress(x, out) returns the part of out with the stream"] = same
        y = codec.decompress(stream, x.size)
        promises["decompress returns float32[count]"] = y.dtype == np.float32 and y.shape == x.shape
        out = np.full_like(x, np.nan)
        same = _equal(codec.decompress(stream, x.size, out), y) and _equal(out, y)
        promises["decompress(stream, count, out) fills and returns out"] = same
        lossy = codec.lossy(x)
        promises["lossy(x) is what decompress returns"] = _equal(lossy, y)
        promises["lossy(lossy(x)) is lossy(x)"] = _equal(codec.lossy(lossy), lossy)
        total = codec.decompress_add(stream, out, x)
        same = _equal(total, x + y) and _equal(out, x + y)
        promises["decompress_add(stream, accumulator, addend) returns their sum in accumulator"] = same
        for promise, held in promises.items():
            if not held:
                raise ValueError(f"codec {codec.name}, {x.size} values: not so: {promise}")


def _equal(a: Lanes, b: Lanes) -> bool:
    return a.shape == b.shape and np.array_equal(a, b)
