# SPDX-License-Identifier: BSD-2-Clause
"""What makes one mean of all ranks' gradients: all-reduces of any compressor, simulated."""

import math
from collections.abc import Callable

import numpy as np

from .... import Codec, converted
from ...training import Floats, Parameters
from ...training.loop import mean_of

AUTO, TENSOR = "auto", "tensor"
SCALES = (AUTO, TENSOR)
SAMPLED = 20
"""Bytes are counted in one of this many steps, the first."""


Compressor = Callable[[Floats], tuple[Floats, Callable[[], float]]]
"""A step between the ranks' gradients, float32[ranks, values], and their sum: what arrives of them, in the
same shape, and what counts the bytes that a rank sends for it."""


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
        kept, sent = self._compressor(gradients)
        if self._feedback:
            self._residuals = gradients - kept
        if self._step % SAMPLED == 0:
            self._sizes.append(sent())
        self._step += 1
        return mean_of(kept)

    @property
    def sent(self) -> float:
        """The mean of the bytes that were counted."""
        return float(np.mean(self._sizes))


def ours(codec: Codec, scale: str, shapes: Parameters, of_sums: bool = True) -> Compressor:
    """Use a codec at the scale that an all-reduce's ranks agree on: one for all values, or for each tensor.

    A scale is the power of two that brings the largest magnitude of all ranks to at most 1/n, where n is the
    power of two from the number of ranks on. With ``planes`` all sums are exact, so a ring need not be run:
    the sum of what arrives is the ring's, bit for bit. Bytes are a ring's by rank: blocks of partial sums,
    then of the sum. Without ``of_sums`` they are those of a rank's own gradient.
    """
    lattice = codec.summing()
    sizes = [values.size for values in shapes.values()]
    if scale == AUTO:
        sizes = [sum(sizes)]
    starts = np.cumsum([0, *sizes[:-1]])

    def compress(wanted: Floats) -> tuple[Floats, Callable[[], float]]:
        largest = np.maximum.reduceat(np.abs(wanted).max(axis=0), starts)
        fraction, exponent = np.frexp(largest)
        exponent = np.where(fraction == 0.5, exponent - 1, exponent)  # at most 1, not below it
        ranks = len(wanted)
        room = math.ceil(math.log2(ranks))
        exponents = np.where(largest > 0, np.clip(-(exponent + room), -126, 126), 0)
        factors = np.repeat(np.ldexp(np.float32(1), exponents).astype(np.float32), sizes)
        kept = lattice.lossy(wanted * factors)
        kept /= factors

        def sent() -> float:
            if not of_sums:
                return float(np.mean([len(codec.compress(row)) for row in kept * factors]))
            sums = np.cumsum(kept * factors, axis=0)
            *partial, whole = [len(codec.compress(row)) for row in sums]
            return (sum(partial) + (ranks - 1) * whole) / ranks + len(sizes)

        return kept, sent

    return compress


def rounded(values: Floats) -> Floats:
    """Return the nearest bfloat16 values, as float32."""
    return converted(converted(values, "bfloat16"), patterns=True)


def raw_bf16(wanted: Floats) -> tuple[Floats, Callable[[], float]]:
    """Run a ring that sends bfloat16 and rounds partial sums to it. The first rank's place has the sum."""
    kept = np.zeros_like(wanted)
    for vector in wanted:
        kept[0] = rounded(kept[0] + vector)
    return kept, lambda: 4 * kept.shape[1] * (len(kept) - 1) / len(kept)


def bf16(inner: Compressor) -> Compressor:
    """Round every rank's gradient to bfloat16 before a compressor, and the mean, which is all ranks' then."""

    def compress(wanted: Floats) -> tuple[Floats, Callable[[], float]]:
        kept, sent = inner(rounded(wanted))
        return np.broadcast_to(rounded(mean_of(kept)), wanted.shape), sent

    return compress
