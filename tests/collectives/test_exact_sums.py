# SPDX-License-Identifier: BSD-2-Clause
"""Sums with planes are exact: the golden model's bits from every collective, in every order."""

import itertools
from typing import Any

import numpy as np
import pytest
from all_reduce import fed_sums, sums
from exact_sums import Case, a_case, compare, result, ways
from outcomes import Group

from inceptionn import Codec
from inceptionn.codec import using_path
from inceptionn.collectives import MEAN, SUM, ErrorFeedback, allreduce_comp
from inceptionn.collectives.agreement import common_scale, largest_exponent, mean_square, rms_scaling
from inceptionn.sim import golden
from inceptionn.transport import Transport

PLANES = Codec(codec="planes")

pytestmark = [
    pytest.mark.filterwarnings("ignore:.* at the error bound:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:invalid value encountered in add:RuntimeWarning"),  # infinities
]


def expected(case: Case) -> bytes:
    """Return the golden model's sum, or the mean from it."""
    ranks, totals = len(case.values), []
    for values in np.split(case.values, np.cumsum(case.sections or [case.values.shape[1]])[:-1], axis=1):
        scale = case.scale or 0
        if scale == "rms":
            sizes = [(largest_exponent(x, case.codec), mean_square(x)) for x in values]
            (scale,) = rms_scaling([list(each) for each in sizes], case.codec.error_bound, ranks).scales
        elif isinstance(scale, str):
            scale = common_scale(scale, [largest_exponent(x, case.codec) for x in values], ranks)
        totals.append(golden.lattice.total(list(values), case.codec.error_bound, scale))
    total = np.concatenate(totals)
    return (total * np.float32(1 / ranks) if case.op is MEAN else total).tobytes()


@pytest.mark.parametrize("seed", range(8))
def test_every_way_gives_the_golden_sum(seed: int) -> None:
    source = np.random.default_rng(seed)
    case = a_case(source)
    for way in ways(source, len(case.values)):
        order = source.permutation(len(case.values))
        assert result(case, way, order, seed).tobytes() == expected(case), way


@pytest.mark.parametrize("values", [(1, 0, -1), (1, 0, 0), (1, 1, -1), (-1, -1, 0)])
def test_the_ends_of_the_range_have_one_answer(values: tuple[int, ...]) -> None:
    """The largest finite values round to 2^128, and partial sums pass it: only whole sums may be infinite."""
    x = np.float32([values] * 9).T * np.finfo(np.float32).max
    case = Case("ends", x, PLANES, "auto", SUM)
    for way in ways(np.random.default_rng(1), 3):
        for order in ((0, 1, 2), (2, 0, 1)):
            assert result(case, way, np.array(order)).tobytes() == expected(case), way


def test_error_feedback_keeps_the_ends_of_the_range_finite(threads: Group) -> None:
    """A value that rounds to 2^128 is kept below it; its residual has the rest."""
    most = np.finfo(np.float32).max
    x = np.float32([[most, most], [0, -most], [-most, 0]])
    for (y, residual), own in zip(fed_sums(threads, x, PLANES), x, strict=True):
        assert y.tobytes() == np.zeros(2, np.float32).tobytes()
        assert (np.sign(residual) == np.sign(own)).all()


@pytest.mark.parametrize("kind", ["auto", "tensor"])
def test_random_values_at_the_ends_of_the_range(kind: Any) -> None:
    """All ways and all magnitudes, also subnormal ones."""
    seeds = (np.random.default_rng((7, seed)) for seed in range(1000))
    cases = (case for case in map(a_case, seeds) if (case.kind, case.scale) == ("ends", kind))
    for case in itertools.islice(cases, 3):
        for way in ways(np.random.default_rng(2), len(case.values)):
            assert result(case, way, np.arange(len(case.values))).tobytes() == expected(case), way


@pytest.mark.parametrize("first", [0, pytest.param(40, marks=pytest.mark.slow)])
def test_random_cases(first: int) -> None:
    for number in range(first, 40 if first == 0 else 240):
        assert compare(np.random.default_rng((3, number)), 4) == ([], 0), number


@pytest.mark.parametrize(("ranks", "group_size"), [(5, None), (7, 2)])
def test_trees_whose_aggregators_have_no_values(threads: Group, ranks: int, group_size: int | None) -> None:
    """The sum of four workers, below one aggregator or below two, whose own arrays do not count."""
    x = np.random.default_rng(2).normal(size=(4, 500)).astype(np.float32)
    aggregators = np.full((ranks - 4, 500), np.nan, np.float32)
    tree = {"algorithm": "paper_baseline", "legs": "both", "group_size": group_size}
    for shift in range(3):
        held = np.concatenate((aggregators, np.roll(x, shift, axis=0)))
        found = {y.tobytes() for y in sums(threads, held, codec=PLANES, scale=4, **tree)}
        assert found == {golden.lattice.total(list(x), 2.0**-10, 4).tobytes()}


@pytest.mark.parametrize(("scale", "k"), [(None, 10), (None, 1), (-20, 14)])
def test_unscaled_sums_are_exact_up_to_2_24_steps(threads: Group, scale: int | None, k: int) -> None:
    """At the limit all orders give the same bits; two steps further they do not: so it is the limit."""
    step = 2.0 ** (1 - k - (scale or 0))
    for steps, results in (((1 << 24) - 2, 1), (1 << 24, 2)):
        x = np.full((3, 40), step, np.float32)
        x[0] *= steps
        settings = {"codec": Codec(2.0**-k, "planes"), "scale": scale, "algorithm": "worker_aggregator"}
        orders = ([0, 1, 2], [1, 0, 2], [1, 2, 0])
        found = {y.tobytes() for order in orders for y in sums(threads, x[order], **settings)}
        assert len(found) == results
        if results == 1:
            assert found == {np.full(40, step * (1 << 24), np.float32).tobytes()}


@pytest.mark.parametrize("k", [1, 2, 7, 10, 14])
@pytest.mark.parametrize("ranks", [2, 3, 4, 5, 64, 129, 512])
def test_scaled_sums_cannot_get_there(ranks: int, k: int) -> None:
    """`Codec.summing` has the proof: with "auto" a sum has at most max(2^(k-1), N) steps, of any values."""
    codec = Codec(2.0**-k, "planes")
    ends = np.float32(2) ** np.arange(-149, 128, 3, dtype=np.float32)
    for x in np.concatenate((ends, np.nextafter(ends, np.float32(0)), [np.finfo(np.float32).max])):
        largest = largest_exponent(np.array([x], np.float32), codec)
        scale = common_scale("auto", [largest] * ranks, ranks)
        scaled = np.array([x], np.float32) * np.float32(2.0**scale)  # as streams hold it
        steps = ranks * float(codec.summing().lossy(scaled)[0]) * 2.0 ** (k - 1)
        most = max(1 << k - 1, ranks) if scale > -126 else 1 << 24  # scales end there
        assert steps <= most <= 1 << 24, (x, scale)


def test_values_themselves_depend_on_order(threads: Group) -> None:
    """What is exact with planes is not so without: the other codec, and none."""
    x = np.random.default_rng(4).normal(size=(5, 3000)).astype(np.float32)
    for settings in ({"path": "off"}, {"codec": Codec()}):
        orders = (np.roll(x, shift, axis=0) for shift in range(3))
        found = {y.tobytes() for own in orders for y in sums(threads, own, **settings)}
        assert len(found) > 1, settings


def test_large_values_keep_to_the_bound(threads: Group) -> None:
    """Values from 16 on, which planes alone keep, come onto the lattice in a sum: within half a step each."""
    x = np.random.default_rng(5).normal(scale=100, size=(4, 2000)).astype(np.float32)
    error = np.abs(sums(threads, x, codec=PLANES, scale=None)[0] - x.astype(np.float64).sum(axis=0))
    assert 2.0**-10 < error.max() <= 4 * 2.0**-10


def test_feedback_knows_all_that_is_lost(threads: Group) -> None:
    """What the ranks' residuals hold is what the sum lacks, large values and all, to fp32's rounding."""
    x = (np.random.default_rng(6).standard_t(2, (4, 6, 1500)) * 1e-2).astype(np.float32)

    def run(t: Transport) -> tuple[np.ndarray, np.ndarray]:
        feedback, total = ErrorFeedback(PLANES), np.zeros(1500)
        y = np.empty(1500, np.float32)
        for gradient in x[t.rank]:
            allreduce_comp(t, gradient, y, codec=PLANES, feedback=(feedback, "w"))
            total += y
        return total, feedback.residual("w")

    found = threads(4, run)
    wanted = x.astype(np.float64).sum(axis=(0, 1))
    residuals = sum(residual.astype(np.float64) for _, residual in found)
    lost = np.square(wanted - found[0][0]).sum()
    unexplained = np.square(wanted - found[0][0] - residuals).sum()
    assert lost > 1e-6 * np.square(wanted).sum()
    assert unexplained < 1e-7 * lost


def test_paths_of_the_codec(threads: Group) -> None:
    case = a_case(np.random.default_rng(8))
    ring = next(iter(ways(np.random.default_rng(8), len(case.values))))
    for path in ("scalar", "numpy"):
        with using_path(path):
            assert result(case, ring, np.arange(len(case.values))).tobytes() == expected(case)
