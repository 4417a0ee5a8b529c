# SPDX-License-Identifier: BSD-2-Clause
"""bf16 and fp16 values from and to the bits of fp32, in NumPy; see :mod:`.numpy_kernel`."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .numpy_types import Bits

_TYPES: dict[str, Any] = {"e": np.float16, "H": np.uint16}
_MAGNITUDE, _INFINITY, _LOWER = np.uint32(0x7FFFFFFF), np.uint32(0x7F800000), np.uint32(0xFFFF)


def values_of(buffer: Any) -> NDArray[Any]:
    """Return a buffer as a flat array of float16, of uint16, which are bf16, or else of float32."""
    form = (memoryview(buffer).format or "").lstrip("@=<^")  # unaligned arrays name their byte order
    return np.frombuffer(buffer, _TYPES.get(form, np.float32))


def widened(values: NDArray[Any]) -> Bits:
    """Return the bits of the same values in fp32; NaNs of fp16 become quiet."""
    if values.dtype == np.float32:
        return values.view(np.uint32)
    if values.dtype == np.uint16:
        return values.astype(np.uint32) << np.uint32(16)
    half = values.view(np.uint16).astype(np.uint32)
    nan = (half & np.uint32(0x8000)) << 16 | np.uint32(0x7FC00000) | (half & np.uint32(0x3FF)) << 13
    with np.errstate(invalid="ignore"):
        return np.where(np.isnan(values), nan, values.astype(np.float32).view(np.uint32))


def store(bits: Bits, into: NDArray[Any]) -> None:
    """Store the nearest values of the array's type, ties to even.

    Values beyond the range of fp16 become infinite. NaNs stay NaNs, and become quiet, but for those that bf16
    holds exactly.
    """
    if into.dtype == np.float32:
        into.view(np.uint32)[:] = bits
        return
    nan = (bits & _MAGNITUDE) > _INFINITY
    upper, lost = bits >> np.uint32(16), bits & _LOWER
    if into.dtype == np.uint16:
        nearest = upper + (lost + (upper & np.uint32(1)) > np.uint32(0x8000))
        into[:] = np.where(nan, upper | np.where(lost > 0, np.uint32(0x40), np.uint32(0)), nearest)
        return
    with np.errstate(all="ignore"):
        nearest = bits.view(np.float32).astype(np.float16).view(np.uint16).astype(np.uint32)
    quiet = upper & np.uint32(0x8000) | np.uint32(0x7E00) | bits >> np.uint32(13) & np.uint32(0x1FF)
    into.view(np.uint16)[:] = np.where(nan, quiet, nearest)
