# SPDX-License-Identifier: BSD-2-Clause
"""Error feedback: nothing is lost for good."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from outcomes import Group
from refusals import refused

from inceptionn import Codec
from inceptionn.collectives import ErrorFeedback, allreduce_comp
from inceptionn.collectives.building import Scaling
from inceptionn.collectives.values.wire_form import Spent
from inceptionn.transport import Transport, loopback
from inceptionn.wire import variant


def test_what_is_too_small_to_send_adds_up() -> None:
    codec = Codec(2**-10)
    feedback = ErrorFeedback(codec)
    gradient = np.full(100, 2.0**-12, np.float32)  # below the bound: alone, it is always lost
    assert not codec.lossy(gradient).any()
    total = sum(feedback(gradient, scale=None) for _ in range(64))
    assert np.all(np.abs(total - 64 * 2.0**-12) <= 2**-10)


def test_sent_plus_residual_is_all_there_ever_was() -> None:
    source = np.random.default_rng(5)
    codec = Codec(2**-8)
    feedback = ErrorFeedback(codec)
    sent, given = np.zeros(5000), np.zeros(5000)
    for _ in range(50):
        gradient = source.laplace(scale=2e-3, size=5000).astype(np.float32)
        before = gradient.copy()
        kept = feedback(gradient, scale=None)
        assert np.array_equal(gradient, before)
        assert np.array_equal(codec.lossy(kept), kept)
        sent += kept
        given += gradient
    assert np.abs(sent + feedback.residual() - given).max() < 1e-6
    assert np.abs(feedback.residual()).max() <= 2**-8


def test_tensors_are_apart_and_out_may_be_the_gradient() -> None:
    feedback = ErrorFeedback(Codec())
    a, b = np.full(3, 0.3, np.float32), np.full((2, 2), 0.7, np.float32)
    assert feedback(a, "a", scale=None, out=a) is a
    assert np.array_equal(a, Codec().lossy(np.full(3, 0.3, np.float32)))
    feedback(b, "b", scale=None)
    assert feedback.residual("b").shape == (2, 2)
    assert np.allclose(a + feedback.residual("a"), 0.3)
    refused(ValueError, r"'b' had the shape \(2, 2\), now \(3,\)", feedback, a, "b", scale=None)
    feedback.reset()
    with pytest.raises(KeyError):
        feedback.residual("a")


def test_out_may_lie_with_gaps() -> None:
    gradient = np.linspace(-1, 1, 50, dtype=np.float32)
    out = np.zeros((50, 2), np.float32)
    returned = ErrorFeedback(Codec())(gradient, scale=None, out=out[:, 1])
    assert np.array_equal(returned, ErrorFeedback(Codec())(gradient, scale=None))
    assert np.array_equal(out[:, 1], returned)
    assert not out[:, 0].any()


def test_what_is_added_stays_until_it_is_kept() -> None:
    """Two tensors of one shape at a time, over several steps: neither takes the other's memory."""
    feedback, x = ErrorFeedback(Codec(codec="planes")), np.full(100, 0.0003, np.float32)
    for step in range(1, 5):
        wanted = {name: feedback.fed(sign * x, name) for name, sign in (("a", 1), ("b", -1))}
        assert np.array_equal(wanted["a"].added(), -wanted["b"].added())
        for name, values in wanted.items():
            sent = feedback.kept(values, name, feedback.codec, Scaling())
            assert not (step < 4 and sent.any())
    assert np.allclose(feedback.residual("a"), 4 * x - 2.0**-9)


def test_scale_and_decay() -> None:
    tiny = np.full(10, 1e-9, np.float32)
    feedback = ErrorFeedback(Codec())
    assert feedback(tiny, scale=28) == pytest.approx(1e-9, rel=0.02)
    forgetful = ErrorFeedback(Codec(), decay=0.5)
    small = np.full(10, 2.0**-12, np.float32)
    for _ in range(20):
        assert not forgetful(small, scale=None).any()  # 2**-12 (1 + 1/2 + ...) never reaches the bound
    assert forgetful.residual() == pytest.approx(2.0**-11, rel=0.01)


def test_infinite_values_leave_no_residual() -> None:
    feedback = ErrorFeedback(Codec())
    odd = np.float32([np.inf, -np.inf, np.nan, 0.3])
    assert np.array_equal(feedback(odd, scale=None)[:3], odd[:3], equal_nan=True)
    assert not feedback.residual()[:3].any()
    assert feedback.residual()[3] > 0


def test_state_survives_a_checkpoint() -> None:
    first = ErrorFeedback(Codec())
    first(np.full(4, 0.1, np.float32), "w", scale=None)
    second = ErrorFeedback(Codec())
    second.load_state_dict(first.state_dict())
    gradient = np.full(4, 0.2, np.float32)
    assert np.array_equal(first(gradient, "w", scale=None), second(gradient, "w", scale=None))


def test_a_state_that_is_none_is_refused_whole() -> None:
    own = ErrorFeedback(Codec())
    own(np.full(4, 0.1, np.float32), "w", scale=None)
    kept = own.residual("w")
    for wrong, text in (
        (np.zeros(4), "the residual of 'v' must be a float32 array, not float64"),
        ([0.0], "the residual of 'v' must be a float32 array, not list"),
        (np.float32([0, np.nan]), "the residual of 'v' has values that are not finite"),
    ):
        refused(ValueError, text, own.load_state_dict, {"w": np.zeros(4, np.float32), "v": wrong})
    assert np.array_equal(own.residual("w"), kept)


@pytest.mark.parametrize("mode", ["bounded", "planes"])
def test_fed_back_at_the_scale_of_the_all_reduce(threads: Group, mode: Any) -> None:
    """The ranks' largest values differ by far, and the all-reduce keeps all that the feedback let through."""
    x = np.random.default_rng(3).laplace(scale=1e-5, size=(3, 4000)).astype(np.float32)
    x[1] *= 40
    codec = Codec(2**-8, *variant(mode))

    def run(t: Transport) -> tuple[np.ndarray, np.ndarray]:
        feedback = ErrorFeedback(codec, comm=t)
        sent, summed = np.zeros(4000), np.zeros(4000)
        for _ in range(20):
            kept = feedback(x[t.rank])
            assert np.abs(kept).max() > 0
            total = np.empty_like(kept)
            allreduce_comp(t, kept, total, codec=codec, algorithm="worker_aggregator", legs="up")
            sent += kept
            summed += total
        assert np.abs(sent + feedback.residual() - 20.0 * x[t.rank]).max() < 1e-6
        return sent, summed

    results = threads(3, run)
    assert np.allclose(results[0][1], sum(sent for sent, _ in results), atol=1e-7)


def test_wrong_arguments() -> None:
    with pytest.raises(ValueError, match=r"scale 'auto' needs the ranks .* ErrorFeedback\(codec, comm="):
        ErrorFeedback(Codec())(np.zeros(3, np.float32))
    refused(ValueError, r"decay must be 0\.\.1, not 1\.5", ErrorFeedback, Codec(), decay=1.5)
    refused(TypeError, "float32, not float64", ErrorFeedback(Codec()), np.zeros(3), scale=None)
    refused(TypeError, r"pass np\.array\(x, np\.float32\)", ErrorFeedback(Codec()), [1.0], scale=None)


@pytest.mark.parametrize("mode", ["bounded", "planes"])
def test_feedback_inside_the_all_reduce_is_feedback_before_it(threads: Callable[..., Any], mode: Any) -> None:
    codec = Codec(2**-6, *variant(mode))

    def train(transport: Transport, inside: bool) -> tuple[np.ndarray, int]:
        source = np.random.default_rng(transport.rank)
        feedback, exchanges, results = ErrorFeedback(codec, 0.9, comm=transport), 0, []
        exchange = transport.exchange

        def counted(value: Any) -> list[Any]:
            nonlocal exchanges
            exchanges += 1
            return exchange(value)

        transport.exchange = counted  # type: ignore[method-assign]
        for _ in range(4):
            values = source.laplace(scale=1e-3 * (1 + transport.rank), size=1000).astype(np.float32)
            if inside:
                allreduce_comp(transport, None, values, codec=codec, feedback=(feedback, "w"))
            else:
                allreduce_comp(transport, None, feedback(values, "w", out=values), codec=codec)
            results.append(values)
        return np.concatenate([*results, feedback.residual("w")]), exchanges

    apart = threads(2, lambda t: train(t, False))
    inside = threads(2, lambda t: train(t, True))
    for (before, twice), (now, once) in zip(apart, inside, strict=True):
        assert np.array_equal(before, now)
        assert (twice, once) == (8, 4)


def test_one_rank_gets_its_values_and_what_was_left() -> None:
    values, feedback = np.array([1, 0.3, 1e-4], np.float32), ErrorFeedback(Codec(2**-2, "planes"))
    (one,) = loopback(1)
    feedback(values, "w", scale=0)
    for expected in (values + feedback.residual("w"), values):
        given = values.copy()
        allreduce_comp(one, None, given, codec=feedback.codec, feedback=(feedback, "w"))
        assert np.array_equal(given, expected)
        assert not feedback.residual("w").any()


@pytest.mark.parametrize("decay", [1, 0.5])
def test_one_value_without_a_dimension(decay: float) -> None:
    feedback = ErrorFeedback(Codec(2**-10, "planes"), decay=decay)
    gradient = np.array(0.3, np.float32)
    for _ in range(3):
        assert abs(float(feedback(gradient, "s", scale=0)) - 0.3) < 2**-8


def test_it_is_called_with_one_scale() -> None:
    with pytest.raises(ValueError, match="scale must be None, 'auto' or -126..126, not 'tensor'"):
        ErrorFeedback(Codec())(np.ones(3, np.float32), scale="tensor")


def test_a_value_too_large_for_the_scale_changes_no_residual() -> None:
    feedback, x = ErrorFeedback(Codec(codec="planes")), np.full(5000, 0.0003, np.float32)
    feedback(x, scale=1)
    before, x[-1] = feedback.residual(), 3e38
    refused(OverflowError, r"too large to be scaled by 2\*\*1$", feedback, x, scale=1)
    assert np.array_equal(feedback.residual(), before)


@pytest.mark.parametrize("scale", [None, 4])
def test_out_of_another_shape_or_type_changes_nothing(scale: int | None) -> None:
    feedback, gradient = ErrorFeedback(Codec(codec="planes")), np.full(10, 0.3, np.float32)
    feedback(gradient, scale=scale)
    before = feedback.residual()
    larger, bent, strided = (np.zeros(shape, np.float32) for shape in (20, (2, 5), (20, 2)))
    cases = (larger, ValueError), (bent, ValueError), (strided[:, 0], ValueError), (np.zeros(10), TypeError)
    for out, kind in cases:
        refused(kind, "^out ", feedback, gradient, scale=scale, out=out)
        assert not out.any()
    assert np.array_equal(feedback.residual(), before)


@pytest.mark.parametrize("usual", [0, -9])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_parts_made_on_demand_are_those_of_one_pass(dtype: str, usual: int) -> None:
    """In any order, in place, and after a spike, which limits the residual."""
    codec, scaling = Codec(2**-8, "planes"), Scaling((-usual,))
    random = np.random.default_rng(5)
    gradients = random.normal(size=(3, 1000)).astype(dtype)
    whole, parts, spent = ErrorFeedback(codec), ErrorFeedback(codec), Spent()
    for memory in (whole, parts):
        memory.usual["w"] = Scaling((4,))
    for gradient in gradients:
        wanted = whole.kept(whole.fed(gradient, "w"), "w", codec, scaling)
        out = gradient.copy() if dtype == "float32" else np.empty(1000, np.float32)
        own = out if dtype == "float32" else gradient
        source = parts.on_demand(parts.fed(own, "w"), "w", codec, scaling, out, spent)
        assert source is not None
        for start in random.permutation(range(0, 1000, 130)):
            where = slice(start, min(1000, start + 130))
            assert np.array_equal(source[where], wanted[where])
        assert np.array_equal(out, wanted)
        assert np.array_equal(parts.residual("w"), whole.residual("w"))
    assert parts.on_demand(parts.fed(gradient, "w"), "w", codec, Scaling((0, 1), (0, 9)), out, spent) is None
