# SPDX-License-Identifier: BSD-2-Clause
"""`StreamCodec`: what the collectives, the layers and the commands with ``--with`` ask of a codec."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..system.integers import integer

Lanes = NDArray[np.float32]

MAX_SCALE = 126
"""Scales are -126..126: both the factor and its inverse are normal numbers."""


class BrokenPromise(ValueError):
    """A codec does not do what a `StreamCodec` must."""


class StreamCodec(Protocol):
    """The interface of a codec for the software path, such as `inceptionn.Codec` or `BFloat16`.

    A codec of your own is a subclass with ``name``, `max_compressed_size`, `compress` and `decompress`, as in
    ``examples/own_codec.py``. All else is made from these, or has a neutral default. Values are C-contiguous
    float32 arrays, streams any contiguous bytes. All methods are O(size).

    A codec must be idempotent in value: ``lossy(lossy(x)) == lossy(x)``. `examine` tests all this, at the
    first use of each type and name.
    """

    @property
    def name(self) -> str:
        """The codec with its settings, as text. Ranks compare it: equal names mean equal streams."""

    @property
    def absolute_bound(self) -> float | None:
        """The largest error of a finite value, whatever its size. None, the default: there is no such bound.

        Where there is one, scales "auto", "tensor" and "rms" make it relative, and lost energy is watched.
        """
        return None

    @property
    def sums_exactly(self) -> bool:
        """True if sums with `summing` are the same in every order. The default is False.

        Its `compress`, `compress_sum` and `decompress_add` then bring a rank's own values, the addends, onto
        one grid, and keep what is on it.
        """
        return False

    @property
    def sums_in_double(self) -> bool:
        """True if a stream restores multiples of a power of two, whose sums in float64 are exact."""
        return False

    @property
    def scales_streams(self) -> bool:
        """True if `scaled` and `summing` scale in the stream alone, and take 16-bit arrays.

        The default is False: the collectives scale and convert the arrays.
        """
        return False

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

    def compress_sum(self, stream: Any, addend: Lanes, out: Any) -> memoryview | bytes:
        """Compress, into ``out``, the sum of ``addend`` and another stream's values.

        Returns the stream that `decompress_add` and `compress` would make. Most steps of a ring need it.
        """
        total = np.empty(addend.shape, np.float32)
        values_in(total, self, self.decompress_add(stream, total, addend), "decompress_add")
        try:
            return self.compress(total, out)
        except ValueError as problem:  # of the sum, not of what arrived
            raise BrokenPromise(f"codec {self.name}: compress: {problem}") from problem

    def lossy(self, x: Any, out: Lanes | None = None) -> Lanes:
        """Return the values that a receiver of ``x`` gets, in the shape of ``x``. ``out`` may be ``x``."""
        back = self.decompress(self.compress(x), x.size)
        if out is None:
            return back.reshape(x.shape)
        np.copyto(out, back.reshape(out.shape))
        return out

    def feed_back(self, x: Any, residual: Lanes, out: Lanes | None = None, *, decay: float = 1.0) -> Lanes:
        """Return `lossy` of ``x + decay * residual``, and make the residual what that loses.

        ``out`` may be ``x``. The residual is zero where values are not finite.
        """
        kept = np.empty(x.shape, np.float32) if out is None else out
        with np.errstate(invalid="ignore", over="ignore"):
            wanted = x + residual * np.float32(decay)
            values_in(kept, self, self.lossy(wanted, kept), "lossy")
            np.subtract(wanted, kept, out=residual)
        residual[~np.isfinite(residual)] = 0
        return kept

    def largest_exponent(self, largest: float) -> int | None:
        """Return the least e, -126..126, with which all values of magnitudes up to ``largest`` fit ``2**e``.

        By default they are smaller. None if the largest is 0.
        """
        return least_exponent(largest)

    def scaled(self, scale: int, dtype: str | None = None) -> StreamCodec:
        """Return this codec with streams of values times ``2**scale``; itself for scale 0.

        ``dtype`` is None, unless the codec `scales_streams`.
        """
        return Multiplied(self, scale) if scale else self

    def summing(self, scale: int = 0, dtype: str | None = None) -> StreamCodec:
        """Return this codec for sums of several ranks' values, scaled as by `scaled`."""
        return self.scaled(scale, dtype)


C = TypeVar("C", bound=StreamCodec)


class AtScale(StreamCodec, Generic[C]):
    """A codec for values times ``2**scale``: what `StreamCodec.scaled` returns."""

    def __init__(self, codec: C, scale: int) -> None:
        self.codec, self.scale = codec, integer("scale", scale, -MAX_SCALE, MAX_SCALE)

    @property
    def name(self) -> str:
        return f"{self.codec.name}, scale {self.scale}"

    def max_compressed_size(self, count: int) -> int:
        return self.codec.max_compressed_size(count)


class Multiplied(AtScale[StreamCodec]):
    """A codec whose values are multiplied by ``2**scale`` before it, and divided again after it."""

    def __init__(self, codec: StreamCodec, scale: int) -> None:
        super().__init__(codec, scale)
        self._factor = np.float32(2.0**scale)

    def compress(self, x: Any, out: Any = None) -> bytes | memoryview:
        return self.codec.compress(x * self._factor, out)

    def decompress(self, stream: Any, count: int, out: Lanes | None = None) -> Lanes:
        return self._divided(self.codec.decompress(stream, count, out), out)

    def lossy(self, x: Any, out: Lanes | None = None) -> Lanes:
        return self._divided(self.codec.lossy(x * self._factor, out), out)

    def _divided(self, values: Lanes, out: Lanes | None) -> Lanes:
        return np.divide(values, self._factor, out=out)


def least_exponent(largest: float, rounds: bool = False) -> int | None:
    """Return the least e of -126..126 with ``largest < 2**e``, or ``<=`` if rounding; None for 0."""
    if not largest:
        return None
    fraction, exponent = math.frexp(largest)
    if rounds and fraction == 0.5:
        exponent -= 1
    return max(-MAX_SCALE, min(MAX_SCALE, exponent))


def add_decompressed(codec: StreamCodec, stream: Any, accumulator: Lanes, addend: Lanes | None) -> Lanes:
    """Do `StreamCodec.decompress_add` for a codec that decompresses, then adds. Needs O(size) of memory."""
    values = codec.decompress(stream, accumulator.size).reshape(accumulator.shape)
    return np.add(accumulator if addend is None else addend, values, out=accumulator)


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
