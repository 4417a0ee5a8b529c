# SPDX-License-Identifier: BSD-2-Clause
"""What makes one mean of all ranks' gradients: real all-reduces, and simulated ones of any compressor."""

import math
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from .... import Codec
from ....collectives import MEAN, ErrorFeedback, allreduce_comp
from ....transport import LoopbackTransport, loopback
from ...training import Floats, Parameters
from ...training.loop import mean_of
from ..common.threads import at_each

AUTO, TENSOR = "auto", "tensor"
SCALES = (AUTO, TENSOR)
SAMPLED = 20
"""Bytes are counted in one of this many steps, the first."""


class Exchange(Protocol):
    """Makes one mean of the gradients of a step."""

    def __call__(self, gradients: Floats) -> Floats:
        """Return the mean, as all ranks have it, of float32[ranks, values], which it may overwrite."""
        ...

    @property
    def sent(self) -> float:
        """The bytes that a rank sends in a step."""
        ...


class Compressor(Protocol):
    """A step between the ranks' gradients and their sum."""

    def __call__(self, wanted: Floats) -> Floats:
        """Return what arrives of float32[ranks, values], in the same shape."""
        ...

    def sent(self, kept: Floats) -> float:
        """Return the bytes that a rank sends for what the last call returned."""
        ...


class Ring:
    """Real all-reduces, between threads. Raw without a codec; ``memory`` makes each rank's error feedback."""

    def __init__(
        self, ranks: int, codec: Codec | None = None, memory: Callable[[Codec], ErrorFeedback] | None = None
    ) -> None:
        self.transports, self.calls = loopback(ranks), 0
        common: dict[str, Any] = {"path": "software", "codec": codec} if codec else {"path": "off"}
        self.memories = [memory(codec) for _ in range(ranks)] if codec and memory else []
        self._settings = [common | {"feedback": (each, "")} for each in self.memories] or [common] * ranks

    def __call__(self, gradients: Floats) -> Floats:
        def rank(transport: LoopbackTransport) -> Floats:
            own, mean = gradients[transport.rank], np.empty(gradients.shape[1], np.float32)
            allreduce_comp(transport, own, mean, MEAN, **self._settings[transport.rank])
            return mean

        self.calls += 1
        return at_each(self.transports, rank)[0]

    @property
    def sent(self) -> float:
        """The bytes of the first rank."""
        return self.transports[0].bytes_sent / self.calls

    def close(self) -> None:
        """Close the transports."""
        for transport in self.transports:
            transport.close()


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


def planes(k: int, scale: str, shapes: Parameters) -> Ours:
    """Make our codec with planes at a bound of 2**-k."""
    return Ours(Codec(2.0**-k, "planes", threads=1), scale, shapes)
