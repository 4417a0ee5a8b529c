# SPDX-License-Identifier: BSD-2-Clause
"""Compression ratios: of given values, of the paper's Table III, or a number.

A ring compresses partial sums, which spread more than one rank's values and compress less. A `Ratio` is
therefore a function of the number of ranks in a sum.
"""

import math
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import numpy as np

from ... import converted
from ...collectives import Scale, StreamCodec, common_scale, largest_exponent
from ...commands.speed import Floats, synthetic
from ...system import npy_file

Ratio = Callable[[float], float]
"""Bytes of fp32 per compressed byte, of a sum by its number of ranks; 1/n stands for a mean of n."""

RatioAt = Callable[[int], Ratio]
"""A ratio by the number of nodes: a scale that all ranks agree on leaves room for the sum of all of them."""

_SAMPLE = 1 << 19
"""Values of an array that are compressed to learn its ratio."""

TABLE_III: dict[str, dict[int, tuple[float, float, float, float]]] = {
    "alexnet": {10: (74.9, 3.9, 21.1, 0.1), 8: (82.5, 14.8, 2.6, 0.1), 6: (93.0, 7.0, 0.0, 0.1)},
    "hdc": {10: (92.0, 6.5, 1.5, 0.0), 8: (95.7, 3.4, 0.9, 0.0), 6: (98.1, 1.6, 0.4, 0.0)},
    "resnet50": {10: (81.6, 17.9, 0.5, 0.0), 8: (92.3, 7.7, 0.1, 0.0), 6: (97.6, 2.4, 0.0, 0.0)},
    "vgg16": {10: (94.2, 0.9, 4.9, 0.0), 8: (96.2, 3.8, 0.0, 0.0), 6: (97.3, 2.7, 0.0, 0.0)},
}
"""The paper's Table III as printed: percent of values that take 2, 10, 18 and 34 bits, by k of 2**-k."""


def bits_ratio(shares: Sequence[float]) -> float:
    """Return the ratio of values of which these percentages take 2, 10, 18 and 34 bits."""
    bits = sum(share * width for share, width in zip(shares, (2, 10, 18, 34), strict=True))
    return 32 * sum(shares) / bits


def constant(value: float) -> Ratio:
    """Return the same ratio for every sum."""
    return lambda ranks: value


def published(network: str, k: int) -> Ratio:
    """Return the ratio of a network in the paper's Table III, for k = 10, 8 or 6.

    Raises ``ValueError`` for others. The 10-bit and 18-bit columns of AlexNet and VGG-16 at 2^-10 are
    exchanged, as the other rows demand (docs/paper.md says why).
    """
    if network not in TABLE_III or k not in TABLE_III[network]:
        raise ValueError(f"Table III has {', '.join(TABLE_III)} at k = 10, 8, 6, not {network!r} at k = {k}")
    zero, eight, sixteen, whole = TABLE_III[network][k]
    if k == 10 and network in ("alexnet", "vgg16"):
        eight, sixteen = sixteen, eight
    return constant(bits_ratio((zero, eight, sixteen, whole)))


def agreed_scale(x: Floats, codec: StreamCodec, scale: Scale, nodes: int) -> int:
    """Return the scale that ``nodes`` such ranks agree on; ``ValueError`` if it leaves fp32's range."""
    return common_scale(scale, [largest_exponent(np.ascontiguousarray(x), codec)], nodes)


def of_values(x: Floats, codec: StreamCodec, scale: Scale = None, nodes: int = 1) -> Ratio:
    """Measure the ratio of values, for sums of independent gradients.

    A sum of n spreads as sqrt(n) times one. ``scale``: that of the all-reduce among ``nodes``; None leaves
    values and bound as they are. Arrays of more than 512 Ki values are sampled in runs. The ratio is computed
    once per octave of n and interpolated; it costs one compression of the sample each.
    """
    flat = np.ascontiguousarray(x.reshape(-1))
    common = agreed_scale(flat, codec, scale, nodes)
    if flat.size > _SAMPLE:
        runs = flat[: flat.size // 64 * 64].reshape(64, -1)
        flat = runs[:, : _SAMPLE // 64].flatten()

    at_scale = codec.scaled(common)

    @cache
    def at(octave: int) -> float:
        return flat.nbytes / len(at_scale.compress(flat * np.float32(2 ** (octave / 2))))

    def ratio(ranks: float) -> float:
        place = math.log2(ranks)
        low = math.floor(place)
        return at(low) if place == low else at(low) + (place - low) * (at(low + 1) - at(low))

    return ratio


def file_values(path: Path) -> Floats:
    """Return a ``.npy`` file's values. Errors as `npy_file.load`, ``ValueError`` if it is empty."""
    values = converted(npy_file.load(path, halves=True), patterns=True)
    if not values.size:
        raise ValueError(f"{path} must hold at least one value")
    return values


SAMPLES: dict[str, Callable[[], Floats]] = {
    "synthetic": lambda: synthetic(_SAMPLE, 1),
    "normal": lambda: 1e-2 * np.random.default_rng(1).standard_normal(_SAMPLE, dtype=np.float32),
}
"""The benches' values, with deviations of 1e-3 to 1e-2, and normal ones of 1e-2, as differences of weights.
Those of local updates had a ratio of 14.2 in a ring of four at 2^-5, scale "auto"; these have 14.5."""
