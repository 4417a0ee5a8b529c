# SPDX-License-Identifier: BSD-2-Clause
"""Scale "rms": steps that follow the root mean square of all ranks' values, and sums that stay exact."""

import math
import warnings
from typing import Any

import numpy as np
import pytest
from all_reduce import sums
from outcomes import Group, messages

from inceptionn import Codec
from inceptionn.collectives import (
    MEAN,
    SUM,
    ErrorFeedback,
    MismatchError,
    Op,
    allreduce_comp,
    reduce_scatter_comp,
    statistics,
)
from inceptionn.collectives.agreement import are_sizes, mean_square, rms_scaling
from inceptionn.collectives.building import to_bfloat16
from inceptionn.sim import golden
from inceptionn.transport import Transport

COARSEST = Codec(0.5, "planes", threads=1)
RMS: dict[str, Any] = {"codec": COARSEST, "scale": "rms"}
SIZES = (1e-3, 3e-3, 0.5e-3)


def of_ranks(count: int = 3000, seed: int = 1) -> np.ndarray:
    """Float32[ranks, count], ranks of several sizes."""
    x = np.random.default_rng(seed).standard_t(4, (len(SIZES), count))
    return (x * np.array(SIZES)[:, np.newaxis]).astype(np.float32)


def scale_of(x: np.ndarray) -> int:
    """Return the power of two next to 1 over 2.8 times the root mean square, by logarithms."""
    return -round(math.log2(2.8 * math.sqrt(np.mean(x.astype(np.float64) ** 2))))


WAYS: list[dict[str, Any]] = [
    {"path": "software"}, {"path": "nic"}, {"algorithm": "worker_aggregator"},
    {"algorithm": "hierarchical", "group_size": 2},
]  # fmt: skip


@pytest.mark.parametrize("op", [SUM, MEAN])
@pytest.mark.parametrize("way", WAYS, ids=str)
def test_every_way_and_order_gives_the_golden_sum(threads: Group, way: dict[str, Any], op: Op) -> None:
    x = of_ranks()
    total = golden.lattice.total(list(x), COARSEST.error_bound, scale_of(x))
    wanted = (total * np.float32(1 / 3 if op is MEAN else 1)).tobytes()
    assert 0.02 < np.mean(total != 0) < 0.9
    for shift in range(2):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # most of the energy is lost
            found = sums(threads, np.roll(x, -shift, axis=0), op, COARSEST, **RMS, **way)
        assert {y.tobytes() for y in found} == {wanted}


def test_an_outlier_makes_the_step_coarser_until_the_sum_is_exact(threads: Group) -> None:
    """At the finest bound and with millions of values; at 2^-1 it would take 2^46 of them."""
    codec, x = Codec(2.0**-14, "planes", threads=1), np.zeros((3, 1 << 21), np.float32)
    x[:, 5:9] = np.random.default_rng(2).normal(size=(3, 4))
    x[1, 17] = 4096
    finest = 24 - 13 - 2 - 12  # 2^24 steps of 2^-13 for up to four values of 2^12
    assert finest < scale_of(x)
    wanted = golden.lattice.total(list(x), codec.error_bound, finest).tobytes()
    assert {y.tobytes() for y in sums(threads, x[::-1], codec=codec, scale="rms")} == {wanted}


@pytest.mark.filterwarnings("error")
def test_feedback_knows_all_that_is_lost_and_nobody_is_warned(threads: Group) -> None:
    steps = np.stack([of_ranks(seed=seed) for seed in range(8)], axis=1)

    def run(t: Transport) -> tuple[np.ndarray, np.ndarray]:
        memory, total, y = ErrorFeedback(COARSEST), 0.0, np.empty(steps.shape[2], np.float32)
        for gradient in steps[t.rank]:
            allreduce_comp(t, gradient, y, **RMS, feedback=(memory, "w"))
            total = total + y.astype(np.float64)
        assert all(part.scale is not None for part in statistics(t).parts)
        return total, memory.residual("w").astype(np.float64)

    found = threads(3, run)
    given = steps.sum(axis=(0, 1), dtype=np.float64)
    missing = given - found[0][0]
    assert np.abs(missing).max() > 1e-3
    np.testing.assert_allclose(missing, sum(left for _, left in found), atol=1e-8)


def test_residuals_do_not_keep_a_coarse_step_up(threads: Group) -> None:
    """Gradients that shrink to a thousandth, after a spike: the steps follow, at the coarsest bound, too."""
    source = np.random.default_rng(3)
    steps = source.normal(size=(2, 60, 500)) * np.geomspace(1, 1e-3, 60)[:, np.newaxis]
    steps[:, 3] *= 20
    given = steps.astype(np.float32)

    def run(t: Transport) -> tuple[list[int | None], float]:
        memory, y, scales = ErrorFeedback(COARSEST), np.empty(500, np.float32), []
        for gradient in given[t.rank]:
            allreduce_comp(t, gradient, y, **RMS, feedback=(memory, "w"))
            scales.append(statistics(t).parts[0].scale)
        return scales, float(np.abs(memory.residual("w")).max())

    for scales, left in threads(2, run):
        assert scales[-1] == scale_of(given[:, -1])
        assert scales[3] == scale_of(given[:, 3]) < min(scales[2], scales[4])
        assert left <= 2.0 ** -scales[-1]


def test_ranks_of_zeros_count(threads: Group) -> None:
    """A sixteenth of the values are not zero, all at one rank."""
    x = np.zeros((16, 64), np.float32)
    x[5] = np.random.default_rng(4).normal(size=64)

    def run(t: Transport) -> Any:
        allreduce_comp(t, x[t.rank], np.empty(64, np.float32), codec=Codec(2**-5, "planes"), scale="rms")
        return statistics(t).parts[0].scale

    assert set(threads(16, run)) == {scale_of(x)}


def test_without_feedback_the_lost_energy_is_named(threads: Group) -> None:
    with pytest.warns(RuntimeWarning, match="of the energy of the values becomes zero"):
        threads(3, lambda t: allreduce_comp(t, of_ranks()[t.rank], np.empty(3000, np.float32), **RMS))


def test_values_without_a_size(threads: Group) -> None:
    """Zeros have the scale 0; infinities and NaNs are left out of the mean, and are in the sum."""
    x = np.zeros((2, 100), np.float32)
    odd = np.full((2, 100), 0.25, np.float32)
    odd[0, :2] = np.inf, np.nan

    def run(t: Transport) -> tuple[list[float], Any, Any]:
        zeros, special, none = np.empty(100, np.float32), np.empty(100, np.float32), np.empty(0, np.float32)
        allreduce_comp(t, x[t.rank], zeros, **RMS)
        allreduce_comp(t, odd[t.rank], special, codec=Codec(2**-8, "planes"), scale="rms")
        allreduce_comp(t, none, none.copy(), **RMS)
        first = statistics(t).parts[0]
        return zeros.tolist(), special.tolist(), first.scale

    for zeros, special, _ in threads(2, run):
        assert set(zeros) == {0.0}
        assert special[0] == np.inf
        assert np.isnan(special[1])
        assert special[2:] == [0.5] * 98


def test_a_mean_square() -> None:
    x = np.random.default_rng(1).normal(size=200_000).astype(np.float32)
    assert mean_square(x) == pytest.approx(np.mean(x.astype(np.float64) ** 2), rel=1e-6)
    half = x.astype(np.float16)
    assert mean_square(half) == pytest.approx(np.mean(half.astype(np.float64) ** 2), rel=1e-6)
    assert mean_square(to_bfloat16(x)) == pytest.approx(1, rel=0.01)
    x[[0, 70_000]] = np.nan, np.inf
    assert mean_square(x) == pytest.approx(1, rel=0.01)
    assert mean_square(np.full(9, 3e38, np.float32)) == pytest.approx(9e76, rel=1e-6)
    assert mean_square(np.full(9, 2.0**-140, np.float32)) > 0
    assert mean_square(np.full(3, np.nan, np.float32)) == mean_square(np.empty(0, np.float32)) == 0


@pytest.mark.parametrize("exponent", [-140, -126, -20, 0, 60, 127])
def test_the_nearest_power_of_two_and_its_limits(exponent: int) -> None:
    """In the logarithm: beside the square root of two times a power of two the scale moves by one."""
    for share, more in ((1.0, 0), (1.41, 0), (1.42, 1), (0.71, 0), (0.70, -1)):
        square = (share * 2.0**exponent / 2.8) ** 2
        (scale,) = rms_scaling([[-126, square], [None, square], None], 2.0**-14, 2).scales
        assert scale == max(-126, min(126, -(exponent + more)))
    for largest, counted in ((40, 40), (126, 128)):  # from 2^126 on, exponents do not tell how much larger
        (capped,) = rms_scaling([[largest, 1e-3], [None, 0.0], [3, 1e-3]], 2.0**-5, 3).scales
        assert capped == max(-126, 24 - 4 - 2 - counted)
    assert rms_scaling([[40, 0.0], None], 2.0**-5, 2).scales == (24 - 4 - 1 - 40,)  # residuals alone
    assert rms_scaling([[-40, 0.0]], 2.0**-5, 2).scales == rms_scaling([None], None, 2).scales == (0,)


X = np.ones(10, np.float32)


SIZES_OF_ANOTHER_FORM: list[Any] = [
    [1], [1, 2], [1, -0.5], [None], [1, 2.0, 3.0], [0.5, 0.5], [], [1, 1e78]
]  # fmt: skip


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        *((RMS, said) for said in SIZES_OF_ANOTHER_FORM),
        ({"codec": COARSEST}, [1, 0.5]),  # a mean square where exponents are wanted
        ({"scale": "tensor", "sections": [4, 6]}, [1, 2, 3]),
    ],
)
def test_sizes_of_another_form_name_their_rank(threads: Group, settings: Any, said: Any) -> None:
    def run(t: Transport) -> None:
        real = t.exchange
        if t.rank == 1:
            t.exchange = lambda value: real([value[0], said, None])  # type: ignore[method-assign]
        allreduce_comp(t, X, X.copy(), **settings)

    (text,) = messages(threads(2, run), MismatchError)
    assert text.startswith("rank 1 sent a malformed agreement: ")
    assert text.endswith((f": {said}", f", {said}, None]"))


def test_what_ranks_may_send() -> None:
    assert all(map(are_sizes, (None, [], [3], [3, 4], [3, 0.5], [None, 0.0])))
    wrong = (
        [0.5],
        [3, -0.5],
        [3, math.inf],
        [3, math.nan],
        [3, 1.2e77],
        [3, 4, 0.5],
        [127, 0.5],
        [True, 0.5],
        "rms",
    )
    assert not any(map(are_sizes, wrong))


def test_it_is_for_sums_alone(threads: Group) -> None:
    def scatter(t: Transport) -> float:
        y = np.empty(5, np.float32)
        reduce_scatter_comp(t, X, y, codec=Codec(2**-8, "planes"), scale="rms")
        return float(y[0])

    assert threads(2, scatter) == [2.0, 2.0]
    with pytest.raises(ValueError, match="scale must be None, 'auto' or -126..126, not 'rms'"):
        ErrorFeedback(COARSEST)(X, scale="rms")  # type: ignore[arg-type]
