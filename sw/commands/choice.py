# SPDX-License-Identifier: BSD-2-Clause
"""The effect of a codec on an array, and the choice of codec and bound."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from ..codec import Codec
from ..collectives.values.deflated import packed
from ..collectives.values.stream_codec import StreamCodec
from ..wire import DEFAULTS, LANE_BYTES, MAX_K, CodecName, Mode, Variant

CHUNK = 1 << 20
"""Values per pass when errors are counted."""
RANKS = 4
"""The number of ranks for which `Choice.arguments` chooses a bound."""
BOUNDS = (4, 6, 8, 10, 12, 14)
MOST_RELATIVE_ERROR = 0.1
"""Relative L2 error up to which a choice is recommended."""


class Errors:
    """Absolute errors of an array's finite values, counted by powers of two of the bound.

    ``counts[i]`` counts errors in ``[2**(i - BINS), 2**(i - BINS + 1))`` bounds, the first one also smaller
    ones; ``exact`` counts values that come back to the bit. ``largest``: the largest error. ``relative``: the
    L2 norm of the errors over that of the values. ``kept``: the share of the energy, the sum of the squares,
    in values that do not become zero. ``bias``: the relative growth of the sum of the magnitudes. A codec
    without an absolute bound is not scaled, and its bound is taken as 1.
    """

    BINS = 12

    def __init__(self, codec: StreamCodec, values: NDArray[np.float32], scale: int):
        bound = codec.absolute_bound
        self.bound = 1.0 if bound is None else math.ldexp(bound, -scale)
        lossy = codec.lossy if bound is None else codec.scaled(scale).lossy
        self.counts = np.zeros(self.BINS + 8, np.int64)
        self.exact = 0
        self.largest = 0.0
        squares = norm = kept = zeroed = magnitudes = grown = 0.0
        for first in range(0, len(values), CHUNK):
            part = np.ascontiguousarray(values[first : first + CHUNK])
            x, y = part.astype(np.float64), lossy(part).astype(np.float64)
            finite = np.isfinite(x)
            x, y = x[finite], y[finite]
            error = np.abs(x - y)
            self.exact += int((error == 0).sum())
            error_bits = np.frexp(error[error > 0] / self.bound)[1] - 1 + self.BINS
            self.counts += np.bincount(error_bits.clip(0, len(self.counts) - 1), minlength=len(self.counts))
            self.largest = max(self.largest, float(error.max(initial=0.0)))
            squares += float(error @ error)
            norm += float(x @ x)
            kept += float(np.square(x[y != 0]).sum())
            zeroed += float(np.square(x[y == 0]).sum())
            magnitudes += float(np.abs(x).sum())
            grown += float(np.abs(y).sum())
        self.kept = kept / (kept + zeroed) if norm else 1.0
        self.bias = grown / magnitudes - 1 if magnitudes else 0.0
        self.relative = math.sqrt(squares / norm) if norm else 0.0

    def rows(self) -> list[tuple[str, int]]:
        """Return label and count of every bin from the first to the last one that is not empty."""
        used = np.flatnonzero(self.counts)
        rows = [("exact", self.exact)]
        for i in range(int(used[0]), int(used[-1]) + 1) if len(used) else ():
            exponent = i - self.BINS
            label = f"2**{exponent}" if i else f"below 2**{1 - self.BINS}"
            rows.append((label, int(self.counts[i])))
        return rows


@dataclass(frozen=True, kw_only=True)
class Effect:
    """The effect of a codec on an array, as :class:`Errors`. ``deflated`` is the ratio with `Deflated`."""

    name: str
    ratio: float
    deflated: float
    largest_error: float
    relative_error: float
    energy_kept: float
    bias: float


@dataclass(frozen=True, kw_only=True)
class Choice(Effect):
    """A codec, its mode, a bound of ``2**-k`` and a scale exponent, with their effect."""

    codec: CodecName
    mode: Mode | None
    k: int
    scale: int

    @property
    def variant(self) -> Variant:
        """The codec and its mode."""
        return Variant(self.codec, self.mode)

    @property
    def text(self) -> str:
        """The options of ``inceptionn encode``."""
        return f"--codec {self.codec} --bound {self.k} --scale {self.scale}"

    def arguments(self, auto: int) -> str:
        """Return the arguments of `CompressState` and `allreduce_comp`, of `RANKS` ranks.

        ``auto`` is the exponent of the scale "auto", which is preferred where it is the same: gradients
        shrink. It makes room for the sum of all ranks, so the bound is finer by as much.
        """
        if self.scale == auto:
            k = min(MAX_K, self.k + (RANKS - 1).bit_length())
            return f"codec=Codec(2**-{k}, {self.codec!r}), scale='auto'"
        return f"codec=Codec(2**-{self.k}, {self.codec!r}), scale={self.scale or None}"


def choices(values: NDArray[np.float32], scales: Iterable[int], item: int = LANE_BYTES) -> list[Choice]:
    """Measure both codecs at several bounds and every scale on a float32 array of one dimension.

    ``item``: bytes of a raw value, for the ratio. O(size) each.
    """
    found = []
    for scale in scales:
        for variant in DEFAULTS:
            for k in BOUNDS:
                effect = effect_of(Codec(2.0**-k, *variant), values, scale, f"{variant.name} 2**-{k}", item)
                found.append(Choice(**variant._asdict(), k=k, scale=scale, **asdict(effect)))
    return found


def between(found: Iterable[Choice], values: NDArray[np.float32], item: int = LANE_BYTES) -> Iterator[Choice]:
    """Measure each codec and scale at the bound after its best one of `choices`, which `BOUNDS` leave out.

    Without it, an odd scale would seem worse than none: its bounds lie between those without a scale.
    """
    for _, group in groupby(found, attrgetter("variant", "scale")):
        if best := recommended(group):
            k, variant = best.k - 1, best.variant
            effect = effect_of(Codec(2.0**-k, *variant), values, best.scale, f"{variant.name} 2**-{k}", item)
            yield replace(best, k=k, **asdict(effect))


def effect_of(
    codec: StreamCodec, values: NDArray[np.float32], scale: int = 0, name: str = "", item: int = LANE_BYTES
) -> Effect:
    """Measure the effect of a codec on a float32 array of one dimension. O(size).

    Only a codec with an absolute bound scales. ``item``: bytes of a raw value, for the ratio.
    """
    errors = Errors(codec, values, scale)
    compress = codec.compress if codec.absolute_bound is None else codec.scaled(scale).compress
    raw, size, deflated = item * values.size, 0, 0
    for first in range(0, len(values), CHUNK):
        stream = np.frombuffer(compress(values[first : first + CHUNK]), np.uint8)
        size, deflated = size + stream.size, deflated + len(packed(stream))
    return Effect(
        name=name or codec.name,
        ratio=raw / size if size else 1.0,
        deflated=raw / deflated if deflated else 1.0,
        largest_error=errors.largest,
        relative_error=errors.relative,
        energy_kept=errors.kept,
        bias=errors.bias,
    )


def recommended(found: Iterable[Choice]) -> Choice | None:
    """Return the highest ratio with a relative L2 error of 0.1 at most, and of equal ones a scaled one.

    None if there is none.
    """
    good = [choice for choice in found if choice.relative_error <= MOST_RELATIVE_ERROR]
    return max(good, key=lambda choice: (choice.ratio, choice.scale != 0), default=None)
