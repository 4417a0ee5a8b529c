# SPDX-License-Identifier: BSD-2-Clause
"""Approximate Data Transfer (A2DTWP, Sec. III): the most significant bytes of fp32 values.

`bitpack` is Algorithm 2, and `bitunpack` is Algorithm 5. Like the codec they have several *paths*, all
bit-identical: ``avx512``, ``avx2`` (Algorithm 4) and ``scalar`` in C, and ``numpy``.

The paper does not say in which order the kept bytes of a value are stored. Here the least significant kept
byte comes first, as in the memory of a little-endian machine. Byte shuffles of registers give that order, and
keeping four bytes is a copy. Discarding bytes rounds toward zero, although the paper calls it "rounding to N
bits".
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ... import Paths
from ...system.integers import integer
from ...system.programs import MOST_THREADS
from . import _numpy_adt

try:
    from ...native import adt as _compiled
except ImportError:
    _compiled = None  # type: ignore[assignment]

Floats = NDArray[np.float32]
Bytes = NDArray[np.uint8]

WHOLE = 4
"""Bytes of a value."""

_paths = Paths("ADT", _compiled, _numpy_adt)
available_paths, active_path, force_path = _paths.available, _paths.active, _paths.force
using_path = _paths.using


def check_round_to(round_to: int) -> int:
    """Return ``round_to`` if it is 1, 2, 3 or 4.

    Raises ``ValueError`` otherwise, or ``TypeError`` if it is not an integer.
    """
    return integer("round_to", round_to, 1, WHOLE, unit=" bytes")


def round_to_of(bits: int) -> int:
    """Return the number of bytes that hold ``bits`` leading bits: 2 for 14 bits (Sec. III-A).

    Raises ``ValueError`` unless ``bits`` is 1..32.
    """
    if not 1 <= bits <= 8 * WHOLE:
        raise ValueError(f"bits must be 1..32, not {bits!r}")
    return -(-bits // 8)


def bitpack(weights: Floats, round_to: int, out: Any = None, *, threads: int = 1) -> Bytes:
    """Pack the ``round_to`` most significant bytes of each value, uint8[round_to * size] (Algorithm 2).

    Parameters
    ----------
    weights
        float32, any shape, in C order; an array that is not C-contiguous is copied first.
    round_to
        1 keeps the sign and 7 bits of the exponent, 2 bfloat16 by truncation, 3 also 15 bits of mantissa, and
        4 everything.
    out
        A writable buffer of exactly that size, which must not overlap ``weights``; a new array if None.
    threads
        Most threads to use. Each takes about 1 MiB or more (Algorithm 3).

    O(size). Raises ``TypeError`` for values of another type, and ``ValueError`` for a wrong ``round_to`` or
    ``out``.
    """
    keep = check_round_to(round_to)
    if not isinstance(weights, np.ndarray) or weights.dtype != np.float32:
        raise TypeError(f"weights must be a float32 array, not {getattr(weights, 'dtype', type(weights))!s}")
    weights = np.ascontiguousarray(weights)
    if out is None:
        packed = np.empty(keep * weights.size, np.uint8)
    else:
        view = memoryview(out)
        if view.readonly or not view.c_contiguous:
            raise ValueError("out must be C-contiguous and writable")
        packed = _flat(view)
        if packed.size != keep * weights.size:
            raise ValueError(
                f"out must hold {keep * weights.size} bytes, {keep} for each of {weights.size} values, "
                f"not {packed.size}"
            )
    _check_apart(weights, packed)
    _paths.backend.pack(weights, packed, keep, integer("threads", threads, 1, MOST_THREADS))
    return packed


def bitunpack(packed: Any, round_to: int, out: Floats | None = None, *, threads: int = 1) -> Floats:
    """Restore packed values as float32, with zeros in the bytes that were dropped (Algorithm 5).

    ``packed`` is any contiguous buffer. ``out`` is a C-contiguous float32 array of n values and any shape;
    None makes a new ``float32[n]``. O(n). Raises ``ValueError`` if the bytes are not a multiple of
    ``round_to``, or ``out`` does not fit.
    """
    keep = check_round_to(round_to)
    view = memoryview(packed)
    if not view.c_contiguous:
        raise ValueError("packed must be C-contiguous")
    count, rest = divmod(view.nbytes, keep)
    if rest:
        raise ValueError(f"packed must be a multiple of {keep} bytes, not {view.nbytes}")
    if out is None:
        out = np.empty(count, np.float32)
    elif not isinstance(out, np.ndarray) or out.dtype != np.float32:
        raise TypeError(f"out must be a float32 array, not {getattr(out, 'dtype', type(out))!s}")
    elif not (out.flags.c_contiguous and out.flags.writeable):
        raise ValueError("out must be C-contiguous and writable")
    elif out.size != count:
        raise ValueError(f"out must hold {count} values, not {out.size}")
    data = _flat(view)
    _check_apart(out, data)
    _paths.backend.unpack(data, out, keep, integer("threads", threads, 1, MOST_THREADS))
    return out


def truncate(values: Floats, round_to: int, out: Floats | None = None) -> Floats:
    """Give the values that packing and unpacking would give, in their shape. ``out`` may be ``values``."""
    mask = np.uint32((0xFFFFFFFF << 8 * (WHOLE - check_round_to(round_to))) & 0xFFFFFFFF)
    if out is None:
        out = np.empty(values.shape, np.float32)
    np.bitwise_and(values.view(np.uint32), mask, out=out.view(np.uint32))
    return out


def _flat(view: memoryview) -> Bytes:
    """View a buffer's bytes. `memoryview.cast` rejects a view without elements."""
    return np.frombuffer(view.cast("B"), np.uint8) if view.nbytes else np.empty(0, np.uint8)


def _check_apart(a: NDArray[Any], b: NDArray[Any]) -> None:
    if np.may_share_memory(a, b):
        raise ValueError("out must not overlap the values")
