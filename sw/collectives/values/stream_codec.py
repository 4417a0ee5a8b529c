# SPDX-License-Identifier: BSD-2-Clause
"""Check of a codec: a `StreamCodec`, a codec's name, or an object of the user's own."""

import math
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from ...codec import Codec
from ...codec.scaled import ScaledCodec
from ...codec.stream_codec import BrokenPromise, StreamCodec
from ...system.integers import integer

__all__ = ["BrokenPromise", "StreamCodec", "check_codec", "examine"]

Lanes = NDArray[np.float32]


class _Adapted(StreamCodec):
    """An object of another class, which has the first methods of a `StreamCodec`."""

    def __init__(self, codec: Any) -> None:
        self.codec = codec

    @property
    def name(self) -> str:
        found: str = self.codec.name
        return found

    @property
    def sums_in_double(self) -> bool:
        return bool(getattr(self.codec, "sums_exactly", False))

    def max_compressed_size(self, count: int) -> Any:
        return self.codec.max_compressed_size(count)

    def compress(self, x: Any, out: Any = None) -> Any:
        return self.codec.compress(x, out)

    def decompress(self, stream: Any, count: int, out: Any = None) -> Any:
        return self.codec.decompress(stream, count, out)

    def decompress_add(self, stream: Any, accumulator: Any, addend: Any = None) -> Any:
        return self.codec.decompress_add(stream, accumulator, addend)

    def compress_sum(self, stream: Any, addend: Any, out: Any) -> Any:
        if hasattr(self.codec, "compress_sum"):
            return self.codec.compress_sum(stream, addend, out)
        return super().compress_sum(stream, addend, out)

    def lossy(self, x: Any, out: Any = None) -> Any:
        return self.codec.lossy(x, out)


_OURS = (Codec, ScaledCodec, _Adapted)
"""Classes of codecs that need no examination."""
_METHODS = ("max_compressed_size", "compress", "decompress", "decompress_add", "lossy")


_examined: WeakKeyDictionary[type, set[str]] = WeakKeyDictionary()
"""The names of codecs that have kept their promises, by type."""


def check_codec(codec: Any) -> StreamCodec:
    """Return a codec: the given one, or an `inceptionn.Codec` by its name, with its default error bound.

    ``ValueError`` for a name of none; ``TypeError`` for another object, with the names of all that it lacks.
    A codec of the user's own is examined at its first use: see `examine`.
    """
    if isinstance(codec, str):
        return Codec(codec=codec)  # type: ignore[arg-type]
    if isinstance(codec, _OURS):
        return codec
    found = _whole(codec)
    ours = StreamCodec in type(found).__mro__
    if ours:
        _check_bound(found)
    known = _examined.setdefault(type(found), set())
    if found.name not in known:
        examine(found)
        known.add(found.name)
    return found if ours else _Adapted(found)


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


def _check_bound(codec: StreamCodec) -> None:
    bound = codec.absolute_bound
    if bound is not None and not 0 < bound < math.inf:
        raise ValueError(
            f"absolute_bound of {codec.name} must be None or a finite number above 0, not {bound!r}"
        )


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


def _equal(a: Lanes, b: Lanes) -> bool:
    return a.shape == b.shape and np.array_equal(a, b)
