# SPDX-License-Identifier: BSD-2-Clause
"""Compressors between the ranks' gradients and their sum, simulated in NumPy: ours, and other lossy ones."""

import math
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from .... import Codec, converted
from ....collectives import StreamCodec
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


Coded = tuple[Floats, float]
"""The values that arrive, and the bytes of one rank."""


def integers(values: Floats, bits: int, block: int | None, scale_bytes: int) -> Coded:
    """Round to signed integers, with a scale by block (None: all): largest magnitude over largest integer."""
    blocks = _blocks(values, block or values.size)
    levels = np.float32(2 ** (bits - 1) - 1)
    scales = np.abs(blocks).max(axis=1, keepdims=True) / levels
    scales[scales == 0] = 1
    kept = np.rint(blocks / scales) * scales
    return kept.reshape(-1)[: values.size], values.size * bits / 8 + len(blocks) * scale_bytes


def six_sigma(values: Floats) -> Coded:
    """Round to the means of 256 uniform bins over six standard deviations to each side, as hivemind does."""
    width = 12 * values.std() / 256 or np.float32(1)
    bins = np.clip(np.rint((values - values.mean()) / width) + 128, 0, 255).astype(np.intp)
    counts, sums = (np.bincount(bins, weights, 256) for weights in (None, values))
    book = (sums / np.maximum(counts, 1)).astype(np.float32)
    return book[bins], values.size + 4 * len(book)


def e4m3(values: Floats) -> Floats:
    """Round to the nearest 8-bit float with 4 bits of exponent, at most 448 (Micikevicius et al., 2022)."""
    exponents = np.maximum(np.frexp(values)[1] - 1, -6)
    steps = np.ldexp(np.float32(1), exponents - 3)
    rounded: Floats = np.clip(np.rint(values / steps) * steps, -448, 448)
    return rounded


def fp8(values: Floats, sizes: Sequence[int]) -> Coded:
    """Round to E4M3, with a scale for each tensor, which brings its largest magnitude to 448."""
    parts = np.split(values, np.cumsum(sizes)[:-1])
    scales = [np.float32(np.abs(part).max() / 448 or 1) for part in parts]
    kept = [e4m3(part / scale) * scale for part, scale in zip(parts, scales, strict=True)]
    return np.concatenate(kept), values.size + 4 * len(sizes)


def mxfp8(values: Floats) -> Coded:
    """Round to MXFP8: blocks of 32 in E4M3 share a power of two (OCP Microscaling Formats 1.0, 6.3)."""
    blocks = _blocks(values, 32)
    exponents = np.frexp(np.abs(blocks).max(axis=1, keepdims=True))[1] - 1 - 8
    scales = np.ldexp(np.float32(1), np.maximum(exponents, -126))
    return (e4m3(blocks / scales) * scales).reshape(-1)[: values.size], values.size + len(blocks)


def top_k(values: Floats, share: float) -> Coded:
    """Keep the largest magnitudes, each with a number of 4 bytes."""
    count = max(1, round(share * values.size))
    chosen = np.argpartition(np.abs(values), -count)[-count:]
    kept = np.zeros_like(values)
    kept[chosen] = values[chosen]
    return kept, 8 * count


def each(code: Callable[[Floats], Coded]) -> Compressor:
    """Let each rank apply a codec to its own gradient."""

    def compress(wanted: Floats) -> tuple[Floats, Callable[[], float]]:
        kept, sizes = zip(*map(code, wanted), strict=True)
        return np.stack(kept), lambda: float(np.mean(sizes))

    return compress


class PowerSGD:
    """Matrices as products of two factors, summed over the ranks (Vogels et al., NeurIPS 2019, algorithm 1).

    A tensor is a matrix of its first dimension by the others. Vectors, and matrices whose factors are no
    smaller, are sent as they are. The second factor is kept as the next step's start.
    """

    def __init__(self, rank: int, shapes: Parameters) -> None:
        self._shapes = [values.shape for values in shapes.values()]
        self._sizes = [values.size for values in shapes.values()]
        self._rank = rank
        random = np.random.default_rng(0)
        self._factors = {
            place: random.normal(size=(size // shape[0], rank)).astype(np.float32)
            for place, (shape, size) in enumerate(zip(self._shapes, self._sizes, strict=True))
            if len(shape) > 1 and self._factored(shape[0], size // shape[0]) < size
        }

    def _factored(self, rows: int, columns: int) -> int:
        return self._rank * (rows + columns)

    def __call__(self, wanted: Floats) -> tuple[Floats, Callable[[], float]]:
        """Return what arrives, and the bytes of one rank's factors and vectors."""
        parts, count = np.split(wanted, np.cumsum(self._sizes)[:-1], axis=1), sum(self._sizes)
        for place, start in self._factors.items():
            rows, columns = self._shapes[place][0], len(start)
            matrices = parts[place].reshape(len(wanted), rows, columns)
            left = np.linalg.qr((matrices @ start).mean(axis=0))[0]
            right = matrices.swapaxes(1, 2) @ left
            self._factors[place] = right.mean(axis=0)
            parts[place] = (left @ right.swapaxes(1, 2)).reshape(len(wanted), -1)
            count += self._factored(rows, columns) - rows * columns
        return np.concatenate(parts, axis=1), lambda: 4.0 * count


def _each(code: Callable[[Floats], Coded]) -> Callable[[Parameters], Compressor]:
    return lambda shapes: each(code)


RIVALS: dict[str, Callable[[Parameters], Compressor]] = {
    "bf16": _each(lambda values: (rounded(values), 2 * values.size)),
    "fp8, scale per tensor": lambda p: each(partial(fp8, sizes=[v.size for v in p.values()])),
    "MXFP8": _each(mxfp8),
    "int8, one scale": _each(partial(integers, bits=8, block=None, scale_bytes=4)),
    "int8, blocks of 128": _each(partial(integers, bits=8, block=128, scale_bytes=4)),
    "int8, six-sigma codebook": _each(six_sigma),
    "int4, blocks of 32": _each(partial(integers, bits=4, block=32, scale_bytes=2)),
    "PowerSGD, rank 2": partial(PowerSGD, 2),
    "top-k, 10 %": _each(partial(top_k, share=0.1)),
    "top-k, 1 %": _each(partial(top_k, share=0.01)),
}
"""By their names in the tables: how they are made for tensors of these shapes."""


def of_stream(codec: StreamCodec) -> Callable[[Parameters], Compressor]:
    """Return how a codec of the user's own is made, as `RIVALS` has it."""

    def code(values: Floats) -> Coded:
        stream = codec.compress(values)
        return codec.decompress(stream, values.size), len(stream)

    return _each(code)


def _blocks(values: Floats, size: int) -> Floats:
    """Return float32[blocks, size], the last one filled with zeros."""
    return np.pad(values, (0, -values.size % size)).reshape(-1, size)
