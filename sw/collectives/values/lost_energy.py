# SPDX-License-Identifier: BSD-2-Clause
"""A warning, issued once, if a codec's error bound removes most of a gradient."""

from __future__ import annotations

import math
import warnings
from collections.abc import Hashable
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from ...codec import Codec
from ...transport import Transport
from .wire_form import StreamCodec

LIMIT = 0.5
"""Share of the energy (the sum of squares) above which the loss causes a warning."""
_RUNS, _RUN = 64, 64
"""Number and length of the evenly spread runs of a sample. One costs about 160 us between transfers."""
_PAUSE = 16
"""Number of calls without sampling after a sample that showed little loss. With one more, a prime, every one
of a model's buckets has its turn."""
_REST = 100
"""The same after a sample that showed more loss than the whole array."""
_CHUNK = 1 << 18


class LostEnergy:
    """Examines the values of every few calls before they are compressed, and warns once per key."""

    def __init__(self) -> None:
        self._rest: dict[Hashable, float] = {}

    def __call__(
        self, key: Hashable, codec: StreamCodec, values: NDArray[np.float32], scale: int = 0
    ) -> None:
        """Issues a ``RuntimeWarning`` if at least half of the energy of ``values`` is below the bound of
        ``codec``.

        ``scale`` is the exponent by which the codec scales the values. Codecs with a relative error are not
        checked.
        """
        if not isinstance(codec, Codec):
            return
        if rest := self._rest.get(key, 0):
            self._rest[key] = rest - 1
            return
        if not lost_share(codec, _sample(values), scale) >= LIMIT:  # also if it is NaN
            self._rest[key] = _PAUSE
            return
        share = lost_share(codec, values, scale)
        if not share >= LIMIT:
            self._rest[key] = _REST
            return
        self._rest[key] = math.inf
        warnings.warn(
            f"{key}: {share:.0%} of the energy of the gradients is below the error bound "
            f"{codec.error_bound:g} and becomes zero; scale='auto' or a smaller error_bound keeps it",
            RuntimeWarning,
            stacklevel=3,
        )


def lost_share(codec: Codec, values: NDArray[np.float32], scale: int = 0) -> float:
    """The share of the energy of ``values`` that is in values which the codec makes zero. O(size).

    It is 0 if all are zero, and NaN if one is not finite.
    """
    flat = values.reshape(-1)
    lost = energy = 0.0
    for start in range(0, flat.size, _CHUNK):
        part = flat[start : start + _CHUNK]
        squares = np.square(part, dtype=np.float64)
        energy += float(squares.sum())
        lost += float(squares[codec.lossy(part, scale=scale) == 0].sum())
    if not math.isfinite(energy):
        return math.nan
    return lost / energy if energy else 0.0


def _sample(values: NDArray[np.float32]) -> NDArray[np.float32]:
    flat = values.reshape(-1)
    if flat.size <= _RUNS * _RUN:
        return flat
    return flat[: flat.size // _RUNS * _RUNS].reshape(_RUNS, -1)[:, :_RUN].reshape(-1)


_watches: WeakKeyDictionary[Transport, LostEnergy] = WeakKeyDictionary()


def watch(transport: Transport) -> LostEnergy:
    """The `LostEnergy` of a transport."""
    return _watches.setdefault(transport, LostEnergy())
