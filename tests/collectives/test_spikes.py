# SPDX-License-Identifier: BSD-2-Clause
"""Error feedback after steps that are no ordinary ones: spikes, and sums that are not finite."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from outcomes import Group

from inceptionn import Codec
from inceptionn.collectives import MEAN, BFloat16, ErrorFeedback, allreduce_comp
from inceptionn.collectives.building import Scaling, to_bfloat16
from inceptionn.collectives.values.finite import all_finite
from inceptionn.transport import Transport

PLANES = Codec(2**-10, "planes", threads=1)
RANKS, COUNT, SPIKING = 4, 1500, 1


def gradients(t: Transport, steps: int) -> Iterator[np.ndarray]:
    source = np.random.default_rng(t.rank)
    for _ in range(steps):
        yield source.laplace(scale=1e-3, size=COUNT).astype(np.float32)


def norms(group: Group, factors: dict[int, float], steps: int, apart: bool = False, **settings: Any) -> Any:
    """Return the norm of each step's mean over that of the gradients' own, with spikes at a rank."""

    def run(t: Transport) -> list[float]:
        feedback, found = ErrorFeedback(settings["codec"], comm=t), []
        exact, mean = np.empty(COUNT, np.float32), np.empty(COUNT, np.float32)
        for step, gradient in enumerate(gradients(t, steps)):
            if t.rank == SPIKING:
                gradient *= np.float32(factors.get(step, 1))
            allreduce_comp(t, gradient, exact, MEAN, path="off")
            if apart:
                feedback(gradient, out=gradient)
                allreduce_comp(t, gradient, mean, MEAN, **settings)
            else:
                allreduce_comp(t, gradient, mean, MEAN, feedback=(feedback, ""), **settings)
            found.append(float(np.linalg.norm(mean) / np.linalg.norm(exact)))
        return found

    return group(RANKS, run)[0]


@pytest.mark.parametrize("factor", [1e3, 1e6])
@pytest.mark.parametrize(
    "settings",
    [
        {"codec": PLANES}, {"codec": PLANES, "apart": True}, {"codec": Codec(2**-10)}, {"codec": BFloat16()},
        {"codec": PLANES, "scale": "tensor", "sections": [500, 0, 1000]},
        {"codec": PLANES, "algorithm": "hierarchical"},
    ],
    ids=["planes", "called before", "paper", "bfloat16", "tensor", "hierarchical"],
)  # fmt: skip
def test_a_spike_does_not_come_back(threads: Group, settings: dict[str, Any], factor: float) -> None:
    """A program that skips or clips the step of the spike then applies ordinary ones."""
    found = norms(threads, {3: factor}, 6, **settings)
    assert found == pytest.approx([1] * 6, abs=0.2)


def test_nor_do_several_in_a_row(threads: Group) -> None:
    found = norms(threads, {3: 1e6, 4: 1e6, 5: 1e6}, 8, codec=PLANES)
    assert found == pytest.approx([1] * 8, abs=0.3)


def test_gradients_that_stay_large_are_fed_back_again(threads: Group) -> None:
    """The usual scale has followed them, so that residuals are all that the sums lack."""

    def run(t: Transport) -> tuple[np.ndarray, np.ndarray]:
        feedback, missing = ErrorFeedback(PLANES), np.zeros(COUNT)
        for step, gradient in enumerate(gradients(t, 12)):
            gradient *= np.float32(1 if step == 0 else 1e3)
            before = 0 if step == 0 else feedback.residual().astype(np.float64)
            exact, mean = gradient.copy(), np.empty(COUNT, np.float32)
            allreduce_comp(t, None, exact, MEAN, path="off")
            allreduce_comp(t, gradient, mean, MEAN, codec=PLANES, feedback=(feedback, ""))
            missing = RANKS * (exact.astype(np.float64) - mean)
        return missing, feedback.residual() - before

    found = threads(RANKS, run)
    assert np.abs(found[0][0]).max() > 1e-3
    assert np.abs(found[0][0] - sum(left for _, left in found)).max() < 1e-5


@pytest.mark.parametrize(
    ("k", "rise", "limited"),
    [(10, 4, False), (10, 5, True), (6, 2, False), (6, 3, True), (2, 2, False), (2, 3, True)],
)
def test_a_scale_below_the_square_root_of_the_bound_is_no_spike(k: int, rise: int, limited: bool) -> None:
    """Bound 2^-10: a step 2^4 times as large leaves what it left, one of 2^5 what the usual one would.

    With coarse bounds 8 times as large, not less, is a spike.
    """
    feedback = ErrorFeedback(Codec(2.0**-k, "planes", threads=1))
    x = np.random.default_rng(1).uniform(-16, 16, 5000).astype(np.float32)
    feedback(x, scale=0)
    kept = feedback(x, scale=-rise)
    left = np.abs(feedback.residual()).max()
    assert np.abs(kept - x).max() > 2.0 ** (rise - k - 1)
    assert left == 2.0**-k if limited else 2.0 ** (rise - k - 1) < left <= 2.0 ** (rise - k)


def test_the_usual_scale_follows_by_one_and_zeros_have_none() -> None:
    feedback, x = ErrorFeedback(PLANES), np.full(9, 2.0**-12, np.float32)
    seen = []
    for scale, factor in ((4, 1), (-3, 1), (-3, 1), (9, 1), (0, 0), (3, 1)):
        feedback(np.float32(factor) * x, scale=scale)
        seen.append(feedback.usual[""].common)
    assert seen == [4, 3, 2, 3, 3, 3]
    sections = Scaling.of([4, 8], [3, 6])
    feedback.finish("", sections, x)
    assert feedback.usual[""] == Scaling.of([4, 4], [3, 6])
    feedback.finish("", sections, x)
    assert feedback.usual[""] == Scaling.of([4, 5], [3, 6])


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_a_sum_that_is_not_finite_leaves_no_residual_at_any_rank(threads: Group, dtype: str) -> None:
    """As under a loss scaler, which skips the step: an infinity at one rank, beside values that are large."""
    narrow = {"float32": np.copy, "float16": lambda x: x.astype(np.float16), "bfloat16": to_bfloat16}[dtype]

    def run(t: Transport) -> list[bool]:
        feedback, found = ErrorFeedback(PLANES), []
        for step, gradient in enumerate(gradients(t, 4)):
            if step == 2 and t.rank == SPIKING:
                gradient *= np.float32(1e6)
                gradient[7] = np.inf
            values = narrow(gradient)
            allreduce_comp(t, None, values, MEAN, codec=PLANES, dtype="bfloat16", feedback=(feedback, ""))
            found.append(bool(feedback.residual().any()))
        return found

    assert threads(RANKS, run) == [[True, True, False, True]] * RANKS


def test_reset_forgets() -> None:
    feedback, x = ErrorFeedback(PLANES), np.full(9, 0.3, np.float32)
    first = feedback(x, "a", scale=0)
    feedback.reset()
    assert feedback.state_dict() == {} == feedback.usual
    assert np.array_equal(feedback(x, "a", scale=0), first)


def test_all_finite() -> None:
    big, odd = np.full((2, 3), 3e38, np.float32), np.float32([1, np.nan])
    halves, infinite = np.float16([65504, 1]), np.float16([0, -np.inf])
    for finite in (big, np.empty(0, np.float32), halves, to_bfloat16(big.ravel()), np.empty(0, np.uint16)):
        assert all_finite(finite)
    for not_finite in (odd, -np.float32([np.inf]), infinite, to_bfloat16(odd)):
        assert not all_finite(not_finite)
