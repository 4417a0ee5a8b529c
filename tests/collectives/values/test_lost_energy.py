# SPDX-License-Identifier: BSD-2-Clause
"""Gradients below the bound: kept by default, and said where they are not."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from inceptionn import Codec
from inceptionn.collectives import MEAN, CompressedCommunicator, allreduce_comp
from inceptionn.collectives.values.lost_energy import LostEnergy, lost_share
from inceptionn.transport import Transport

Group = Callable[..., list[Any]]
BOUND = 2.0**-10


def late(ranks: int = 4, count: int = 20_000, spread: float = 1e-4) -> np.ndarray:
    """Gradients of a network that has nearly converged: far below the bound."""
    return np.random.default_rng(5).laplace(scale=spread, size=(ranks, count)).astype(np.float32)


@pytest.mark.parametrize("path", ["software", "nic"])
@pytest.mark.parametrize("codec", [None, Codec(2**-10)])
def test_small_gradients_survive_by_default(threads: Group, path: str, codec: Codec | None) -> None:
    x = late()

    def run(t: Transport) -> tuple[np.ndarray, np.ndarray]:
        y, z = np.empty_like(x[0]), np.empty_like(x[0])
        allreduce_comp(t, x[t.rank], y, MEAN, codec=codec, path=path)
        CompressedCommunicator(t, codec=codec, path=path).Allreduce(x[t.rank], z, MEAN)
        return y, z

    results = threads(4, run, nic=Codec())
    want = x.astype(np.float64).mean(axis=0)
    for pair in results:
        for result, first in zip(pair, results[0], strict=True):
            assert np.array_equal(result.view(np.uint32), first.view(np.uint32))
            assert np.square(result - want).sum() < 0.02 * np.square(want).sum()


@pytest.mark.parametrize("path", ["software", "nic"])
def test_an_absolute_bound_that_takes_most_is_said_once(threads: Group, path: str) -> None:
    x = late()

    def run(t: Transport) -> None:
        y = np.empty_like(x[0])
        for _ in range(3):
            allreduce_comp(t, x[t.rank], y, path=path, scale=None)
        assert not y.any()

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        threads(2, run, nic=Codec())
    assert [warning.category for warning in said] == [RuntimeWarning] * 2  # once per rank
    assert str(said[0].message) in [
        f"the all-reduce: {share} of the energy of the gradients is below the error bound 0.000976562 and "
        "becomes zero; scale='auto' or a smaller error_bound keeps it"
        for share in ("99%", "100%")
    ]


def test_what_is_sent_raw_or_kept_is_not_warned_of(threads: Group) -> None:
    x = late(spread=0.01)

    def run(t: Transport) -> None:
        y = np.empty_like(x[0])
        allreduce_comp(t, x[t.rank], y, scale=None)
        allreduce_comp(t, x[t.rank] / 10_000, y, path="off", scale=None)
        allreduce_comp(t, x[t.rank] * np.float32(1e-6 if t.rank else 1), y)  # the largest rank's scale
        allreduce_comp(t, np.float32([np.nan, np.inf, 1e-6]), np.empty(3, np.float32))

    for result in threads(2, run):
        assert result is None


def test_the_share_is_that_of_the_energy() -> None:
    codec = Codec(2**-10)
    x = np.zeros(1 << 20, np.float32)
    x[::2] = 2.0**-11
    x[1] = 0.5
    energy = 2.0**19 * 2.0**-22
    assert lost_share(codec, x) == pytest.approx(energy / (energy + 0.25))
    assert lost_share(codec, x[1:2]) == 0
    assert lost_share(codec, np.zeros(3, np.float32)) == 0
    assert lost_share(codec, np.full(9, 1e-30, np.float32)) == 1


def test_a_sample_alone_does_not_warn() -> None:
    """A look that falls between the large values is followed by one at all of them, and then by a rest."""
    x = np.full(1 << 20, 2.0**-12, np.float32)
    look = LostEnergy()
    x[64::128] = 0.01
    for _ in range(300):
        look("w", Codec(), x)
    with pytest.warns(RuntimeWarning, match=r"^v: 100%"):
        look("v", Codec(), np.full(10, 2.0**-12, np.float32))
    look("v", Codec(), np.full(10, 2.0**-12, np.float32))
