# SPDX-License-Identifier: BSD-2-Clause
"""Sums on the lattice of the planes codec, in integers (docs/collectives.md, "Exact sums").

The lattice is the multiples of the step D. Every rank first brings its own values onto it
(:func:`on_lattice`). A sum of multiples is a multiple: the codec keeps it as it is, and fp32 holds it exactly
up to 2^24 D. So the sum of some ranks' values has the same bits in every order and grouping.

Lanes are passed as their 32 bits (``uint32``). Plain NumPy over whole arrays, apart from the host library.
"""

import numpy as np
from numpy.typing import NDArray

from inceptionn import wire
from inceptionn.codec.numpy_lattice import NAN, on_lattice, raw_on_lattice, steps_of
from inceptionn.codec.numpy_planes import step_of
from inceptionn.codec.numpy_types import Bits

from . import planes
from .codec import DEFAULT_ERROR_BOUND, bits_of

__all__ = [
    "EXACT", "NAN", "added", "compress", "compress_sum", "decompress_add", "scaled", "on_lattice", "total",
]  # fmt: skip

EXACT = 1 << 24
"""Largest magnitude of a sum, in steps, up to which fp32 has every multiple."""
_INFINITY = 0x7F800000

Float32 = NDArray[np.float32]


def added(a: Bits, b: Bits, e0: int) -> Bits:
    """Return the sums of lanes ``uint32[n]``, on the lattice.

    Multiples are added as integers. Where a lane or the sum leaves the exact range, or a lane is no multiple,
    the sum is first rounded to nearest, as fp32 does.
    """
    x, y = steps_of(a, e0), steps_of(b, e0)
    exact = (np.abs(x) <= EXACT) & (np.abs(y) <= EXACT) & (x == np.floor(x)) & (y == np.floor(y))
    total = np.where(exact, x, 0).astype(np.int64) + np.where(exact, y, 0).astype(np.int64)
    step = step_of(e0)
    with np.errstate(all="ignore"):
        # Twice rounded as once: fp64 has more than twice the bits of fp32.
        otherwise = (a.view(np.float32).astype(np.float64) + b.view(np.float32)).astype(np.float32)
    found = np.where(exact, (total * step).astype(np.float32), otherwise)
    return on_lattice(found.view(np.uint32), e0)


def scaled(bits: Bits, exponent: int) -> Bits:
    """Multiply finite lanes by ``2**exponent``. ``OverflowError`` if one becomes infinite."""
    finite = (bits & 0x7FFFFFFF) < _INFINITY
    x = np.where(finite, bits, 0).astype(np.uint32).view(np.float32).astype(np.float64)
    with np.errstate(over="ignore", under="ignore"):
        moved = (x * 2.0**exponent).astype(np.float32)
    if np.isinf(moved).any():
        raise OverflowError(f"a value is too large to be scaled by 2**{exponent}")
    return np.where(finite, moved.view(np.uint32), bits).astype(np.uint32)


def compress(x: Float32, error_bound: float = DEFAULT_ERROR_BOUND, scale: int = 0) -> bytes:
    """Return the stream of a rank's own values on the lattice, multiplied by ``2**scale`` first.

    Raw lanes are moved; the codec itself brings the others onto the lattice.
    """
    e0 = wire.planes_parameters(wire.error_bound_exponent(error_bound)).e0
    bits = scaled(bits_of(x), scale)
    return planes.compress(raw_on_lattice(bits, e0).view(np.float32), error_bound)


def compress_sum(
    stream: bytes, addend: Float32, error_bound: float = DEFAULT_ERROR_BOUND, scale: int = 0
) -> bytes:
    """Return the stream of a stream's values plus the addend's, times ``2**scale`` and on the lattice.

    ``MalformedError`` for a malformed stream, ``OverflowError`` if the addend grows too large.
    """
    return planes.compress(_sum(stream, addend, error_bound, scale).view(np.float32), error_bound)


def decompress_add(
    stream: bytes, addend: Float32, error_bound: float = DEFAULT_ERROR_BOUND, scale: int = 0
) -> Float32:
    """Return the same sum as ``float32[n]``, divided by ``2**scale``."""
    return _unscaled(_sum(stream, addend, error_bound, scale), scale)


def _sum(stream: bytes, addend: Float32, error_bound: float, scale: int) -> Bits:
    e0 = wire.planes_parameters(wire.error_bound_exponent(error_bound)).e0
    arrived = planes.decompress(stream, addend.size, error_bound).view(np.uint32)
    return added(arrived, on_lattice(scaled(bits_of(addend), scale), e0), e0)


def _unscaled(bits: Bits, scale: int) -> Float32:
    with np.errstate(all="ignore"):
        values = (bits.view(np.float32).astype(np.float64) * 2.0**-scale).astype(np.float32)
    return np.where(np.isnan(values), bits, values.view(np.uint32)).astype(np.uint32).view(np.float32)


def total(arrays: list[Float32], error_bound: float = DEFAULT_ERROR_BOUND, scale: int = 0) -> Float32:
    """Return what every collective makes of the ranks' values, ``float32[n]``.

    Exact, and the same for every order of the arrays, as long as the magnitudes of a lane's multiples add up
    to at most 2^24 steps; beyond, the sum is that of this order.
    """
    e0 = wire.planes_parameters(wire.error_bound_exponent(error_bound)).e0
    first, *rest = (on_lattice(scaled(bits_of(x), scale), e0) for x in arrays)
    for bits in rest:
        first = added(first, bits, e0)
    return _unscaled(first, scale)
