# SPDX-License-Identifier: BSD-2-Clause
"""Our codecs between simulated ranks."""

import math

import numpy as np

from .... import Codec
from ...training import Floats, Parameters

AUTO, TENSOR = "auto", "tensor"
SCALES = (AUTO, TENSOR)


class Ours:
    """A codec at the scale that an all-reduce's ranks agree on: one for all values, or one for each tensor.

    A scale is the power of two that brings the largest magnitude of all ranks to at most 1/n, where n is the
    power of two from the number of ranks on. With ``planes`` all sums are exact, so a ring need not be run:
    the sum of what this returns is the ring's, bit for bit.
    """

    def __init__(self, codec: Codec, scale: str, shapes: Parameters) -> None:
        self.codec, self.scale = codec, scale
        self._lattice = codec.summing()
        sizes = [values.size for values in shapes.values()]
        if scale == AUTO:
            sizes = [sum(sizes)]
        self._sizes, self._starts = sizes, np.cumsum([0, *sizes[:-1]])
        self._factors: Floats = np.ones(1, np.float32)

    def __call__(self, wanted: Floats) -> Floats:
        largest = np.maximum.reduceat(np.abs(wanted).max(axis=0), self._starts)
        fraction, exponent = np.frexp(largest)
        exponent = np.where(fraction == 0.5, exponent - 1, exponent)  # at most 1, not below it
        room = math.ceil(math.log2(len(wanted)))
        exponents = np.where(largest > 0, np.clip(-(exponent + room), -126, 126), 0)
        self._factors = np.repeat(np.ldexp(np.float32(1), exponents).astype(np.float32), self._sizes)
        kept = self._lattice.lossy(wanted * self._factors)
        kept /= self._factors
        return kept

    def sent(self, kept: Floats) -> float:
        """Return the bytes by rank of a ring: blocks of partial sums, then of the sum."""
        ranks = len(kept)
        sums = np.cumsum(kept * self._factors, axis=0)
        sizes = [len(self.codec.compress(row)) for row in sums]
        return (sum(sizes[:-1]) + (ranks - 1) * sizes[-1]) / ranks + len(self._sizes)
