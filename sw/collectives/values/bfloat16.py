# SPDX-License-Identifier: BSD-2-Clause
"""bfloat16: the upper half of an fp32 value, rounded to nearest even."""

import sys
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ...codec import converted
from ...codec.stream_codec import StreamCodec

_QUIET = np.uint16(0x0040)
_UPPER = 1 if sys.byteorder == "little" else 0


def to_bfloat16(x: NDArray[np.float32], out: NDArray[np.uint16] | None = None) -> NDArray[np.uint16]:
    """Round a flat float32 array to bfloat16 patterns. NaN stays NaN. ``out`` is uint16 of the same size."""
    bits = np.ascontiguousarray(x).view(np.uint32)
    # To round to nearest even, add just under half of the last kept place, and the last place itself.
    rounded = bits >> np.uint32(16)
    rounded &= np.uint32(1)
    rounded += np.uint32(0x7FFF)
    rounded += bits
    half = rounded.view(np.uint16)[_UPPER::2]
    if out is None:
        out = half.copy()
    else:
        out[:] = half
    nan = np.isnan(x)
    if nan.any():
        out[nan] = bits.view(np.uint16)[_UPPER::2][nan] | _QUIET
    return out


def from_bfloat16(x: NDArray[np.uint16], out: NDArray[np.float32] | None = None) -> NDArray[np.float32]:
    """Return the exact float32 values of a flat array of bfloat16 patterns.

    ``out`` is float32 of the same size.
    """
    if out is None:
        out = np.empty(x.size, np.float32)
    bits = out.view(np.uint32)
    bits[:] = x
    bits <<= np.uint32(16)
    return out


@dataclass(frozen=True)
class BFloat16(StreamCodec):
    """A codec of the collectives that sends 16 bits per value, for comparison: ``codec=BFloat16()``."""

    name: ClassVar[str] = "bfloat16"

    def max_compressed_size(self, count: int) -> int:
        """Return the size in bytes of ``count`` values, two each."""
        return 2 * count

    def compress(self, x: Any, out: Any = None) -> bytes | memoryview:
        """Return the patterns of a float32 array, little-endian, in the writable buffer ``out`` if given."""
        values = np.asarray(x, np.float32).reshape(-1)
        if out is None:
            return converted(values, "bfloat16").tobytes()
        view = memoryview(out).cast("B")[: 2 * values.size]
        converted(values, out=np.frombuffer(view, np.uint16))
        return view

    def decompress(
        self, stream: Any, count: int, out: NDArray[np.float32] | None = None
    ) -> NDArray[np.float32]:
        """Return float32[count], in ``out`` if given. Raise ``ValueError`` for a stream of another length."""
        into = None if out is None else out.reshape(-1)
        values: NDArray[np.float32] = converted(self._patterns(stream, count), out=into, patterns=True)
        return values

    def lossy(self, x: Any, out: NDArray[np.float32] | None = None) -> NDArray[np.float32]:
        """Return the nearest bfloat16 values of ``x``, as float32 in its shape."""
        values: NDArray[np.float32] = converted(converted(x, "bfloat16"), out=out, patterns=True)
        return values

    @staticmethod
    def _patterns(stream: Any, count: int) -> NDArray[np.uint16]:
        view = memoryview(stream)
        if view.nbytes != 2 * count:
            raise ValueError(f"{count} bfloat16 values are {2 * count} bytes, not {view.nbytes}")
        return np.frombuffer(view, np.uint16)
