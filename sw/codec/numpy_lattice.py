# SPDX-License-Identifier: BSD-2-Clause
"""The lattice of the planes codec, the multiples of its step, and blocks whose values are all on it."""

import numpy as np
from numpy.typing import NDArray

from . import numpy_planes
from .coder import Coder
from .numpy_planes import data_bytes, examine, step_of, table_bytes
from .numpy_types import Bits

__all__ = [
    "NAN", "block", "data_bytes", "examine", "lossy", "on_lattice", "raw_on_lattice", "steps_of",
    "table_bytes",
]  # fmt: skip

NAN = 0x7FC00000
"""The one NaN on the lattice."""
_INFINITY = 0x7F800000
_LARGE = 1 << 23
"""In steps: fp32's values from here on are multiples of the step."""


def steps_of(bits: Bits, e0: int) -> NDArray[np.float64]:
    """Return the lanes in steps; exact, since a step is a power of two."""
    with np.errstate(invalid="ignore"):
        return bits.view(np.float32).astype(np.float64) / step_of(e0)


def on_lattice(bits: Bits, e0: int) -> Bits:
    """Move each finite lane of ``uint32[n]`` to the nearest multiple of the step, ties away from zero.

    Zero is +0.0. Infinities stay, and every NaN becomes :data:`NAN`.
    """
    finite = (bits & 0x7FFFFFFF) < _INFINITY
    x = np.where(finite, steps_of(bits, e0), 0.0)
    near = np.abs(x) < _LARGE
    q = np.floor(np.where(near, np.abs(x), 0.0) + 0.5).astype(np.int64) * np.where(x < 0, -1, 1)
    multiples = (q * step_of(e0)).astype(np.float32).view(np.uint32)
    nan = (bits & 0x7FFFFFFF) > _INFINITY
    return np.where(nan, NAN, np.where(finite & near, multiples, bits)).astype(np.uint32)


def raw_on_lattice(bits: Bits, e0: int) -> Bits:
    """Move the lanes that the codec would keep raw; it moves the others itself.

    A lane that its rounding makes as large as a raw one stays a code.
    """
    return np.where(numpy_planes.is_raw(bits & np.uint32(0x7FFFFFFF), e0), on_lattice(bits, e0), bits)


def block(bits: Bits, p: Coder) -> bytes:
    """Encode lanes on the lattice as one block."""
    return numpy_planes.block(raw_on_lattice(bits, p.e0), p)


def lossy(bits: Bits, p: Coder) -> Bits:
    """Return what decompressing the compressed lanes gives: multiples of the step."""
    return numpy_planes.lossy(raw_on_lattice(bits, p.e0), p)
