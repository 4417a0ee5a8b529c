# SPDX-License-Identifier: BSD-2-Clause
"""What makes one mean of all ranks' gradients: all-reduces of any compressor, simulated."""

import math
from typing import Protocol

import numpy as np

from .... import Codec, converted
from ...training import Floats, Parameters
from ...training.loop import mean_of

AUTO, TENSOR = "auto", "tensor"
SCALES = (AUTO, TENSOR)
SAMPLED = 20
"""Bytes are counted in one of this many steps, the first."""


class Compressor(Protocol):
    """A step between the ranks' gradients and their sum."""

    def __call__(self, wanted: Floats) -> Floats:
        """Return what arrives of float32[ranks, values], in the same shape."""
        ...

    def sent(self, kept: Floats) -> float:
        """Return the bytes that a rank sends for what the last call returned."""
        ...


class Simulated:
    """What a compressor makes of the ranks' gradients. ``feedback``: the rest is added to the next ones."""

    def __init__(self, compressor: Compressor, feedback: bool = False) -> None:
        self._compressor, self._feedback = compressor, feedback
        self._residuals: Floats | None = None
        self._sizes: list[float] = []
        self._step = 0

    def __call__(self, gradients: Floats) -> Floats:
        if self._residuals is not None:
            gradients += self._residuals
        kept = self._compressor(gradients)
        if self._feedback:
            self._residuals = gradients - kept
        if self._step % SAMPLED == 0:
            self._sizes.append(self._compressor.sent(kept))
        self._step += 1
        return mean_of(kept)

    @property
    def sent(self) -> float:
        """The mean of the bytes that were counted."""
        return float(np.mean(self._sizes))


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


def rounded(values: Floats) -> Floats:
    """Return the nearest bfloat16 values, as float32."""
    return converted(converted(values, "bfloat16"), patterns=True)


class RawBf16:
    """A ring that sends bfloat16 and rounds each partial sum to it."""

    def __call__(self, wanted: Floats) -> Floats:
        """Return the sum, and zeros for all ranks but the first."""
        kept = np.zeros_like(wanted)
        for vector in wanted:
            kept[0] = rounded(kept[0] + vector)
        return kept

    def sent(self, kept: Floats) -> float:
        """Return the bytes that a rank of a ring sends for as many bfloat16 values."""
        return 4 * kept.shape[1] * (len(kept) - 1) / len(kept)


class Bf16:
    """Gradients that every rank rounds to bfloat16 before a compressor, and means that are rounded to it."""

    def __init__(self, inner: Compressor) -> None:
        self._inner = inner
        self._kept: Floats = np.zeros((1, 1), np.float32)

    def __call__(self, wanted: Floats) -> Floats:
        """Return the mean in the place of every rank's values."""
        self._kept = self._inner(rounded(wanted))
        mean = rounded(self._kept.sum(axis=0) / np.float32(len(wanted)))
        return np.broadcast_to(mean, wanted.shape)

    def sent(self, kept: Floats) -> float:
        """Return the bytes by rank."""
        return self._inner.sent(self._kept)
