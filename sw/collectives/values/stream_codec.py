# SPDX-License-Identifier: BSD-2-Clause
"""`StreamCodec`: what a codec must have for the software path, and for commands with ``--with``."""

from abc import abstractmethod
from typing import Any, Protocol, runtime_checkable
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from ...codec import Codec
from ...codec.scaled import ScaledCodec
from ...system.integers import integer

Lanes = NDArray[np.float32]


class StreamCodec(Protocol):
    """The interface of a codec for the software path, such as `inceptionn.Codec` or `BFloat16`.

    A codec of your own is a subclass with ``name``, `max_compressed_size`, `compress` and `decompress`, as in
    ``examples/own_codec.py``. The other methods are made from these. Any other class needs all of
    them. Values are C-contiguous float32 arrays, streams any contiguous bytes. All methods are O(size).

    A codec must be idempotent in value: ``lossy(lossy(x)) == lossy(x)``. It may be a `SummingCodec` as well.
    `examine` tests all this, at the first use of each type and name.
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


_examined: WeakKeyDictionary[type, set[str]] = WeakKeyDictionary()
"""The names of codecs that have kept their promises, by type."""


class BrokenPromise(ValueError):
    """A codec does not do what a `StreamCodec` must."""


def check_codec(codec: Any) -> StreamCodec:
    """Return a codec: the given one, or an `inceptionn.Codec` by its name, with its default error bound.

    ``ValueError`` for a name of none; ``TypeError`` for another object, with the names of all that it lacks.
    A codec of the user's own is examined at its first use: see `examine`.
    """
    if isinstance(codec, str):
        return Codec(codec=codec)  # type: ignore[arg-type]
    if isinstance(codec, Codec | ScaledCodec):
        return codec
    found = _whole(codec)
    known = _examined.setdefault(type(found), set())
    if found.name not in known:
        examine(found)
        known.add(found.name)
    return found


def _whole(codec: Any) -> StreamCodec:
    """Return an object that has all methods. Raise ``TypeError`` for any other."""
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
    """Test a codec with some arrays. Raise ``TypeError``, or ``ValueError`` for a property that fails.

    What a codec that rounds at random loses differs in each call, and is not compared.
    """
    _whole(codec)
    values = np.random.default_rng(1).normal(scale=0.01, size=3000).astype(np.float32)
    for x in (values, values[:1], values[:0], np.zeros(100, np.float32)):
        most = codec.max_compressed_size(x.size)
        room = bytearray(integer(f"max_compressed_size of {codec.name}", most, 0))
        stream = bytes(codec.compress(x))
        fits = len(stream) <= len(room)
        promises = {"compress makes at most max_compressed_size bytes": fits}
        repeats = bytes(codec.compress(x)) == stream
        made = bytes(codec.compress(x, room)) if fits else b""
        same = made == bytes(room[: len(made)]) and (made == stream or not repeats)
        promises["compress(x, out) returns the part of out with the stream"] = same
        y = codec.decompress(stream, x.size)
        promises["decompress returns float32[count]"] = y.dtype == np.float32 and y.shape == x.shape
        out = np.full_like(x, np.nan)
        same = _equal(codec.decompress(stream, x.size, out), y) and _equal(out, y)
        promises["decompress(stream, count, out) fills and returns out"] = same
        lossy = codec.lossy(x)
        promises["lossy(x) is what decompress returns"] = _equal(lossy, y) or not repeats
        promises["lossy(lossy(x)) is lossy(x)"] = _equal(codec.lossy(lossy), lossy) or not repeats
        total = codec.decompress_add(stream, out, x)
        same = _equal(total, x + y) and _equal(out, x + y)
        promises["decompress_add(stream, accumulator, addend) returns their sum in accumulator"] = same
        for promise, held in promises.items():
            if not held:
                raise BrokenPromise(f"codec {codec.name}, {x.size} values: not so: {promise}")


def stream_in(out: NDArray[np.uint8], codec: StreamCodec, stream: Any, lanes: Lanes, most: int) -> int:
    """Return the length of a stream that a codec made of lanes, and copy it to ``out`` if it is elsewhere.

    So memory that a codec did not write is never sent. Raises `BrokenPromise` for anything but a stream, and
    for one of more than ``most`` bytes.
    """
    try:
        view = memoryview(stream).cast("B") if len(stream) else memoryview(b"")
    except TypeError:
        raise BrokenPromise(
            f"codec {codec.name}: compress must return bytes or a part of out, not {type(stream).__name__}"
        ) from None
    size = view.nbytes
    if size > most:
        raise BrokenPromise(
            f"codec {codec.name}: compress made {size} bytes of {lanes.size} values, "
            f"but max_compressed_size is {most}"
        )
    made = np.asarray(view)
    if size and made.ctypes.data != out.ctypes.data:
        out[:size] = made
    return size


def values_in(out: Lanes, codec: StreamCodec, values: Any, method: str) -> Lanes:
    """Return ``out`` with the values that a codec's method returned; copy them if they are elsewhere.

    Raises `BrokenPromise` for anything but an array of this size and type.
    """
    if values is out:
        return out
    if not isinstance(values, np.ndarray) or (values.dtype, values.size) != (out.dtype, out.size):
        found = f"{values.dtype}[{values.size}]" if isinstance(values, np.ndarray) else type(values).__name__
        raise BrokenPromise(f"codec {codec.name}: {method} must return {out.dtype}[{out.size}], not {found}")
    np.copyto(out, values.reshape(out.shape))
    return out


def _equal(a: Lanes, b: Lanes) -> bool:
    return a.shape == b.shape and np.array_equal(a, b)
