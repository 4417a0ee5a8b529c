# SPDX-License-Identifier: BSD-2-Clause
"""A warning, issued once, if a codec's error bound removes most of a gradient, or all but its outliers."""

import math
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from ...codec import converted
from ...codec.scaling import Scaling
from ...codec.stream_codec import StreamCodec
from ...system.warning import warn
from ...transport import Transport
from .fed import Fed

LIMIT = 0.5
"""Share of the energy (the sum of squares) above which the loss causes a warning."""
_RUNS, _RUN = 64, 64
"""Number and length of the evenly spread runs of a sample. One costs about 160 us between transfers."""
_PAUSE = 16
"""Number of calls without sampling after a sample that showed little loss. With one more, a prime, every one
of a model's buckets has its turn."""
_REST = 100
"""The same after a sample that showed more loss than the whole array."""
_SHIFT = 7
"""Bits by which the scale must fall below that of the last sample for another one at once. The scale is known
without a pass over the values; an outlier lowers it."""
_CHUNK = 1 << 18
_UNSCALED = Scaling()
_OUTLIERS = 4096
"""The kept values are outliers if at most one value in this number is kept and all others are lost."""
_ENOUGH = 32
"""Number of values that are not zero below which none is an outlier."""


@dataclass(frozen=True)
class Loss:
    """The part of some values that a codec makes zero.

    ``share`` is that of the energy, NaN if a value is not finite. ``kept`` of the ``count`` values that are
    not zero stay so; ``largest`` is the largest magnitude. ``dropped`` is the energy of the whole error, that
    of rounded values included, as a share like ``share``.
    """

    share: float
    kept: int
    count: int
    largest: float
    dropped: float

    @property
    def by_outliers(self) -> bool:
        """True if only a few outliers, at most one value in 4096, exceed the bound that they have set."""
        few = max(1, self.count // _OUTLIERS)
        return math.isfinite(self.share) and 0 < self.kept <= few and self.count >= _ENOUGH

    @property
    def warned_of(self) -> bool:
        """True if the loss deserves a warning."""
        return self.share >= LIMIT or self.by_outliers

    def text(self, bound: float, remedy: str) -> str:
        """Say what an error bound in their own unit does to the values, and how to mend it."""
        if self.share >= LIMIT:
            amount = "all" if self.kept == 0 else f"{math.floor(1000 * self.share) / 1000:.1%}"
            what = f"{amount} of the energy of the values"
        else:
            outliers = f"an outlier of {self.largest:.3g}" if self.kept == 1 else f"{self.kept} outliers"
            what = f"all of {self.count} values but {outliers}"
            remedy = f"clip the values; {remedy}"
        return f"{what} becomes zero at the error bound {bound:.3g}; {remedy}"


class LostEnergy:
    """Examines the values of every few calls, and of those whose scale falls; warns once per key."""

    def __init__(self) -> None:
        self._rest: dict[tuple[Hashable, bool], int] = {}
        """Calls without a sample that remain, by key and ``quiet``."""
        self._scale: dict[tuple[Hashable, bool], int] = {}
        """The scale at the last sample."""
        self._warned: set[Hashable] = set()

    def __call__(
        self,
        key: Hashable,
        codec: StreamCodec,
        values: NDArray[Any] | Fed,
        scaling: Scaling = _UNSCALED,
        *,
        sums: bool = False,
        auto: bool = False,
        feedback: bool = False,
        quiet: bool = False,
    ) -> Loss | None:
        """Issue a ``RuntimeWarning`` if half or more of the energy of ``values`` becomes zero.

        It is also issued if all but a few outliers become zero. ``scaling`` is that of the values, ``sums``
        tells that the codec's form for sums takes them. ``auto`` tells that the scales follow the values,
        ``feedback`` that what is lost is added to the next call's values. ``quiet`` values are sampled and
        not warned of. Only a codec with an absolute bound is checked. Return the loss of the sample, if this
        call takes one.
        """
        bound = codec.absolute_bound
        if bound is None:
            return None
        place, scale = (key, quiet), min(scaling.scales)
        rest = self._rest.get(place, 0)
        if rest and scale > self._scale[place] - _SHIFT:
            self._rest[place] = rest - 1
            return None
        self._scale[place] = scale
        self._rest[place] = _PAUSE
        flat = values if isinstance(values, Fed) else Fed(values.reshape(-1))
        places = _places(flat.size)
        sampled = loss_of(codec, flat[places].added(), scaling.at(places), sums)
        if quiet or not sampled.warned_of or key in self._warned:
            return sampled
        loss = loss_of(codec, flat.added(), scaling.at(np.arange(values.size)), sums)
        if not loss.warned_of:
            self._rest[place] = _REST
            return sampled
        self._warned.add(key)
        remedy = ("" if auto else "scale='auto' or ") + "a smaller error_bound keeps more"
        if feedback:
            remedy = f"error feedback keeps the rest for the next step; {remedy}"
        text = loss.text(math.ldexp(bound, -scale), remedy)
        warn(f"{key}: {text}", RuntimeWarning)
        return sampled


@np.errstate(invalid="ignore", over="ignore")  # signalling NaNs become quiet
def loss_of(
    codec: StreamCodec, values: NDArray[Any], scale: int | NDArray[np.int64] = 0, sums: bool = False
) -> Loss:
    """Measure the energy of ``values`` that a codec, scaling them by ``2**scale``, makes zero. O(size).

    Values are float32, float16, or uint16 with bfloat16 patterns. ``scale`` is one for all, or one for each
    value. ``sums`` takes `StreamCodec.summing`.
    """
    flat = values.reshape(-1)
    form = codec.summing() if sums else codec
    factors = np.broadcast_to(np.ldexp(np.float32(1), scale), flat.shape)
    lost = dropped = energy = largest = 0.0
    kept = count = 0
    for start in range(0, flat.size, _CHUNK):
        part = flat[start : start + _CHUNK]
        if part.dtype != np.float32:
            part = converted(part, patterns=True)
        factor = factors[start : start + _CHUNK]
        restored = form.lossy(part * factor) / factor
        zero = restored == 0
        squares = np.square(part, dtype=np.float64)
        energy += float(squares.sum())
        dropped += float(np.square(part - restored, dtype=np.float64).sum())
        lost += float(squares[zero].sum())
        kept += part.size - int(np.count_nonzero(zero))
        count += int(np.count_nonzero(part))
        largest = max(largest, float(squares.max(initial=0.0)))

    def share(of: float) -> float:
        return of / energy if energy and math.isfinite(energy) else energy and math.nan

    return Loss(share(lost), kept, count, math.sqrt(largest), share(dropped))


def _places(count: int) -> NDArray[np.int64]:
    """Return the places of a sample of ``count`` values."""
    if count <= _RUNS * _RUN:
        return np.arange(count)
    return np.add.outer(np.arange(_RUNS) * (count // _RUNS), np.arange(_RUN)).reshape(-1)


_watches: WeakKeyDictionary[Transport, LostEnergy] = WeakKeyDictionary()


def watch(transport: Transport) -> LostEnergy:
    """Return the `LostEnergy` of a transport."""
    return _watches.setdefault(transport, LostEnergy())
