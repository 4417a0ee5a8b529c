# SPDX-License-Identifier: BSD-2-Clause
"""Approximate Data Transfer (A2DTWP, Sec. III): the most significant bytes of fp32 values.

`bitpack` is Algorithm 2, `bitunpack` Algorithm 5. As for the codec there are several *paths*, all
bit-identical: ``avx512``, ``avx2`` (Algorithm 4) and ``scalar`` in C, and ``numpy``.

The paper does not say in which order the kept bytes of a value are stored. Here it is the order in which a
little-endian machine has them in memory, the least significant kept byte first. Byte shuffles of registers
give that order, and keeping four bytes is a copy. Discarding rounds toward zero; the paper calls it "rounding
to N bits".
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...codec.paths import Paths
from ..checks import integer
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


def check_round_to(round_to: int) -> int:
    """``round_to`` if it is 1, 2, 3 or 4; else ``ValueError``, or ``TypeError`` for no integer."""
    whole = integer("round_to", round_to)
    if not 1 <= round_to <= WHOLE:
        raise ValueError(f"round_to must be 1..4 bytes, not {round_to!r}")
    return whole


def round_to_of(bits: int) -> int:
    """Bytes that hold ``bits`` leading bits: 14 bits take 2 (Sec. III-A). ``ValueError`` if not 1..32."""
    if not 1 <= bits <= 8 * WHOLE:
        raise ValueError(f"bits must be 1..32, not {bits!r}")
    return -(-bits // 8)


def bitpack(weights: Floats, round_to: int, out: Any = None, *, threads: int = 1) -> Bytes:
    """The ``round_to`` most significant bytes of each value, uint8[round_to * size] (Algorithm 2).

    Parameters
    ----------
    weights
        float32, any shape, in C order; an array that is not C-contiguous is copied first.
    round_to
        1..4: sign and 7 bits of the exponent; bfloat16 by truncation; 15 bits of mantissa; everything.
    out
        A writable buffer of exactly that many bytes, apart from ``weights``; a new array if None.
    threads
        Most threads to use, one for every MiB or so (Algorithm 3).

    O(size). ``TypeError`` for another type of values, ``ValueError`` for a wrong ``round_to`` or ``out``.
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
    _paths.backend.pack(weights, packed, keep, _check_threads(threads))
    return packed


def bitunpack(packed: Any, round_to: int, out: Floats | None = None, *, threads: int = 1) -> Floats:
    """The float32 values of packed ones, zeros in the bytes that were dropped (Algorithm 5).

    ``packed``: any contiguous buffer; ``out``: a C-contiguous float32 array of the same size, any shape, or
    a new ``float32[n]`` if None. O(n). ``ValueError`` if the bytes are not a multiple of ``round_to``, or
    ``out`` does not fit.
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
    _paths.backend.unpack(data, out, keep, _check_threads(threads))
    return out


def truncate(values: Floats, round_to: int, out: Floats | None = None) -> Floats:
    """What unpacking the packed values gives, in their shape, without packing; ``out`` may be ``values``."""
    mask = np.uint32((0xFFFFFFFF << 8 * (WHOLE - check_round_to(round_to))) & 0xFFFFFFFF)
    if out is None:
        out = np.empty(values.shape, np.float32)
    np.bitwise_and(values.view(np.uint32), mask, out=out.view(np.uint32))
    return out


def _flat(view: memoryview) -> Bytes:
    """A buffer's bytes; a view of no elements cannot be cast."""
    return np.frombuffer(view.cast("B"), np.uint8) if view.nbytes else np.empty(0, np.uint8)


def _check_apart(a: NDArray[Any], b: NDArray[Any]) -> None:
    if np.may_share_memory(a, b):
        raise ValueError("out must not overlap the values")


def _check_threads(threads: int) -> int:
    if isinstance(threads, bool) or not isinstance(threads, int) or not 1 <= threads <= 4096:
        raise ValueError(f"threads must be 1..4096, not {threads!r}")
    return threads
