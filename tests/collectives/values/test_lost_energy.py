# SPDX-License-Identifier: BSD-2-Clause
"""Gradients below the bound: kept by default, and said where they are not."""

import math
import warnings
from typing import Any

import numpy as np
import pytest
from outcomes import Group

from inceptionn import Codec
from inceptionn.codec.scaling import Scaling
from inceptionn.collectives import MEAN, CompressedCommunicator, ErrorFeedback, allreduce_comp
from inceptionn.collectives.values.lost_energy import Loss, LostEnergy, loss_of
from inceptionn.transport import Transport
from inceptionn.wire import variant

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
    energy = np.square(x[:2], dtype=np.float64)
    lost = (energy * (np.abs(x[:2]) < BOUND)).sum(axis=1) / energy.sum(axis=1)
    shares = ["all" if share == 1 else f"{math.floor(1000 * share) / 1000:.1%}" for share in lost]
    assert {str(warning.message) for warning in said} == {
        f"the all-reduce: {share} of the energy of the values becomes zero at the error bound 0.000977; "
        "scale='auto' or a smaller error_bound keeps more"
        for share in shares
    }


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
    assert loss_of(codec, x).share == pytest.approx(energy / (energy + 0.25))
    assert loss_of(codec, x[1:2]).share == 0
    assert loss_of(codec, np.zeros(3, np.float32)).share == 0
    assert loss_of(codec, np.full(9, 1e-30, np.float32)).share == 1


def test_a_sample_alone_does_not_warn() -> None:
    """A look that falls between the large values is followed by one at all of them, and then by a rest."""
    x = np.full(1 << 20, 2.0**-12, np.float32)
    look = LostEnergy()
    x[64::128] = 0.01
    for _ in range(300):
        look("w", Codec(), x)
    with pytest.warns(RuntimeWarning, match=r"^v: all of the energy"):
        look("v", Codec(), np.full(10, 2.0**-12, np.float32))
    look("v", Codec(), np.full(10, 2.0**-12, np.float32))


def test_a_scale_that_has_fallen_much_needs_a_new_sample() -> None:
    """An outlier lowers it; the loss may then be another."""
    look, x = LostEnergy(), np.ones(100, np.float32)
    assert look("w", Codec(), x, Scaling([20])) is not None
    for scale, sampled in ((20, False), (14, False), (13, True), (20, False)):
        assert (look("w", Codec(), x, Scaling([scale])) is not None) == sampled


def said_by(threads: Group, x: np.ndarray, **settings: Any) -> list[str]:
    """Return the warnings that two ranks with these values get in three all-reduces."""

    def run(t: Transport) -> None:
        y = np.empty_like(x)
        for _ in range(3):
            allreduce_comp(t, x, y, **settings)

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        assert threads(2, run) == [None, None]
    assert {warning.filename for warning in said} <= {__file__}
    return sorted({str(warning.message) for warning in said})


@pytest.mark.parametrize("mode", ["bounded", "planes"])
def test_one_outlier_that_takes_all_else_is_said(threads: Group, mode: Any) -> None:
    x = late()[0]
    x[77] = 1e30
    codec = Codec(2**-10, *variant(mode))
    assert said_by(threads, x, codec=codec) == [
        "the all-reduce: all of 20000 values but an outlier of 1e+30 becomes zero at the error bound "
        "2.48e+27; clip the values; a smaller error_bound keeps more"
    ]
    x[77] = 0.5
    x[:10] = -0.5
    assert said_by(threads, x[:9000], codec=codec) == []  # more than a few outliers


@pytest.mark.parametrize(
    ("kept", "count", "few"),
    [(2, 8192, True), (3, 8192, False), (2, 8191, False), (1, 32, True), (1, 31, False), (0, 8192, False)],
)
def test_how_many_are_outliers(kept: int, count: int, few: bool) -> None:
    """One in 4096, of 32 at least."""
    assert Loss(0.1, kept, count, 1e30, 0.1).by_outliers == few


def test_an_outlier_in_a_later_call_is_said(threads: Group) -> None:
    x = late()[0]
    outlier = x.copy()
    outlier[77] = 1e30

    def run(t: Transport) -> None:
        for call in range(6):
            allreduce_comp(t, outlier if call == 3 else x, np.empty_like(x))

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        assert threads(2, run) == [None, None]
    assert len(said) == 2  # once per rank
    assert all("but an outlier of 1e+30 becomes zero" in str(warning.message) for warning in said)


def test_the_bound_is_the_one_in_use_and_the_default_is_not_advised(threads: Group) -> None:
    x = np.full(60_000, 2.0**-13, np.float32)
    x[::300] = 2.0**-9
    (text,) = said_by(threads, x, codec=Codec(2**-2), scale=3)
    assert "at the error bound 0.0312; scale='auto' or a smaller" in text
    (text,) = said_by(threads, x, codec=Codec(2**-2))
    assert 59_800 / (59_800 + 200 * 2**8) == pytest.approx(0.53874, abs=1e-5)
    assert text == (
        "the all-reduce: 53.8% of the energy of the values becomes zero at the error bound 0.00195; "
        "a smaller error_bound keeps more"
    )


def test_with_error_feedback_it_says_that_the_rest_is_kept(threads: Group) -> None:
    x = late()[0]

    def run(t: Transport) -> np.ndarray:
        feedback, y = ErrorFeedback(Codec()), np.empty_like(x)
        for _ in range(3):
            allreduce_comp(t, x, y, scale=None, feedback=(feedback, "w"))
        return feedback.residual("w") + y / 2

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        results = threads(2, run)
    assert len(said) == 2
    for warning, kept in zip(said, results, strict=True):
        assert "; error feedback keeps the rest for the next step; scale='auto' or" in str(warning.message)
        assert np.abs(kept).sum() > np.abs(x).sum()
