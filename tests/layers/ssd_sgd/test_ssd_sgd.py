# SPDX-License-Identifier: BSD-2-Clause
"""SSD-SGD: local updates and time model by hand; Algorithm 1 against the same in one loop; convergence."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from outcomes import Group, messages

from inceptionn import Codec
from inceptionn.evaluate.training import MLP, Batches, digits, flatten, unflatten
from inceptionn.layers.parameter_server import Cosine, MomentumSGD, ParameterServer, StepDecay
from inceptionn.layers.parameters import copy_of
from inceptionn.layers.ssd_sgd import (
    GLU,
    LOCAL_UPDATES,
    SSDSGD,
    DCASGDa,
    LocalSGD,
    LocalUpdate,
)
from inceptionn.transport import Transport

MODEL = MLP(64, (24,), 10)
DATA = digits()


def one(value: float) -> dict[str, np.ndarray]:
    return {"w": np.array([value], np.float32)}


# Local updates.


def test_defaults_are_the_papers() -> None:
    glu = GLU()
    assert (glu.alpha, glu.beta, glu.factor) == (2.0, 0.5, 4.0)
    assert set(LOCAL_UPDATES) == {"sgd", "dc-asgd-a", "glu"}


def test_sgd_by_hand() -> None:
    """Equation 5 with the sign of a descent: 1 - 0.25 * 0.4 * 2 = 0.8."""
    weights = one(1)
    LocalSGD().update(weights, one(2), weights, 0.4)
    assert weights["w"] == pytest.approx(0.8)


def four_updates(glu: GLU) -> list[float]:
    """Return the weight after each of four updates with gradient 1, from 8; 6 is pulled before the third."""
    weights = one(8)
    glu.start(weights, 2)
    seen = []
    for update in range(4):
        if update == 2:
            weights = one(6)
        glu.update(weights, one(1), weights, 1.0)
        seen.append(float(weights["w"][0]))
    return seen


def test_glu_by_hand() -> None:
    """With k = 2, m = 0.5, lr = 1, wd = 0.25, lr_loc = 1 (factor 1), alpha 2, beta 0.5.

    1. pre 8, w' 8: sync 0; w' = 8 - (2*1 + 0.25*8) = 4. 2. sync = (8-4)*0.5/2 = 1; w' = 4 - (2*1 + 0.25*4 +
    0.5*1) = 0.5. Then 6 is pulled. 3. sync = (8-6)*0.5/2 = 0.5, pre becomes 6; w' = 6 - (2 + 1.5 + 0.25) =
    2.25. 4. sync = (6-2.25)*0.5/2 = 0.9375; w' = 2.25 - (2 + 0.5625 + 0.46875) = -0.78125.
    """
    glu = GLU(momentum=0.5, weight_decay=0.25, factor=1.0)
    assert four_updates(glu) == [4, 0.5, 2.25, -0.78125]


def test_glu_held_keeps_the_first_estimate_of_a_cycle() -> None:
    """As above; in update 2 sync is still 0: w' = 4 - (2 + 1) = 1. In update 4 it is 0.5: 2.25 - 2.8125."""
    glu = GLU(momentum=0.5, weight_decay=0.25, factor=1.0, held=True)
    assert four_updates(glu) == [4, 1, 2.25, -0.5625]


def test_grad_sync_is_the_gradient_that_moved_the_servers() -> None:
    """Servers under a constant gradient, once momentum has built up: the estimate approaches it."""
    weights, momentum, history = 5.0, 0.0, []
    for _ in range(300):
        history.append(weights)
        momentum = 0.9 * momentum - 0.01 * 2.0
        weights += momentum
    glu = GLU(momentum=0.9, weight_decay=0.0)
    for k in (1, 3, 5):
        glu.start(one(history[-1 - k]), k)
        assert glu.grad_sync("w", one(history[-1])["w"], 0.01)[0] == pytest.approx(2.0, rel=1e-3)


def test_dc_asgd_a_by_hand() -> None:
    """Mean square 2, and 2 more; lambda 1 / 2: 1 - 0.5 * (2 + 0.5 * 4 * (1 - 3)) = 2. No pull: 1 - 1."""
    weights = one(1)
    DCASGDa(factor=0.5, lambda_0=1.0, mean_square=0.5, epsilon=2.0).update(weights, one(2), one(3), 1.0)
    assert weights["w"] == pytest.approx(2.0)
    weights = one(1)
    DCASGDa(factor=0.5).update(weights, one(2), weights, 1.0)
    assert weights["w"] == pytest.approx(0.0)


# Algorithm 1.


def algorithm_1(
    workers: int, k: int, warm_up: int, steps: int, rate: Any, make: Callable[[], LocalUpdate]
) -> np.ndarray:
    """Return the servers' weights after all steps: the paper's algorithms in one loop over all workers."""
    weights = flatten(MODEL.initial())
    momentum = np.zeros_like(weights)
    like = MODEL.initial()
    own = [copy_of(like) for _ in range(workers)]
    pulled: np.ndarray | None = None
    rules = [make() for _ in range(workers)]
    for rule in rules:
        rule.follow(MomentumSGD(rate))
    batches = [Batches(DATA.train, 8, worker, workers) for worker in range(workers)]
    for step in range(steps):
        if step == warm_up:
            for worker in range(workers):
                own[worker] = copy_of(unflatten(weights, like))
                rules[worker].start(own[worker], k)
        if step < warm_up:
            own = [unflatten(weights.copy(), like) for _ in range(workers)]
        gradients = [MODEL.gradients(own[worker], batches[worker].at(step)) for worker in range(workers)]
        mean = sum(flatten(g) for g in gradients) * np.float32(1 / workers)
        if step >= warm_up:
            for worker in range(workers):
                at = own[worker]
                if pulled is not None:
                    own[worker] = copy_of(unflatten(pulled, like))
                rules[worker].update(own[worker], gradients[worker], at, rate(step))
            pulled = None
        momentum = np.float32(0.9) * momentum - np.float32(rate(step)) * mean
        weights = weights + momentum
        if step >= warm_up and (step - warm_up) % k == k - 1:
            pulled = weights.copy()
    return weights


def ssd(
    transport: Transport, k: int, warm_up: int, steps: int, rate: Any, update: LocalUpdate, **more: Any
) -> Any:
    with ParameterServer(transport, MODEL.initial(), MomentumSGD(rate), **more) as group:
        if group.worker is None:
            group.serve()
            return None
        trainer = SSDSGD(group.worker, k, warm_up, rate, update)
        batches = Batches(DATA.train, 8, group.worker.index, group.worker.count)
        weights = trainer.weights
        for step in range(steps):
            weights = trainer.step(MODEL.gradients(weights, batches.at(step)))
        final = trainer.finish()
        return flatten(final), trainer.pulls


@pytest.mark.parametrize("name", LOCAL_UPDATES)
@pytest.mark.parametrize(("k", "warm_up"), [(1, 4), (3, 4), (4, 0)])
def test_training_is_that_of_the_paper_s_algorithms(threads: Group, name: str, k: int, warm_up: int) -> None:
    rate, steps = StepDecay(0.05, (9,), 0.5), 15
    found = threads(3, lambda t: ssd(t, k, warm_up, steps, rate, LOCAL_UPDATES[name]()))
    expected = algorithm_1(3, k, warm_up, steps, rate, LOCAL_UPDATES[name])
    for weights, pulls in found:
        np.testing.assert_allclose(weights, expected, rtol=0, atol=2e-5)
        # At the start, in each step of the warm-up, in every k-th step after it, at the end.
        assert pulls == 1 + warm_up + (steps - warm_up) // k + 1


def test_over_tcp_with_servers_apart(tcp: Group) -> None:
    found = tcp(3, lambda t: ssd(t, 2, 2, 9, StepDecay(0.05, ()), GLU(), servers=[1], workers=[0, 2]))
    expected = algorithm_1(2, 2, 2, 9, StepDecay(0.05, ()), GLU)
    np.testing.assert_allclose(found[0][0], expected, rtol=0, atol=2e-5)
    assert found[1] is None


@pytest.mark.parametrize(
    ("k", "warm_up", "mode", "text"),
    [
        (0, 0, "sync", "k must be at least 1, not 0"),
        (-1, 0, "sync", "k must be at least 1, not -1"),
        (2, 0, "async", "SSD-SGD needs a parameter server in mode 'sync', not 'async'"),
        (1.5, 0, "sync", "k must be an integer, not 1.5"),
        *((2, n, "sync", f"warm_up must be an integer, not {n}") for n in (1.5, float("nan"), True)),
    ],
)
def test_wrong_settings_are_an_error_at_all_ranks(
    threads: Group, k: Any, warm_up: Any, mode: Any, text: str
) -> None:
    kind = TypeError if "integer" in text else ValueError
    found = threads(2, lambda t: ssd(t, k, warm_up, 3, 0.05, GLU(), mode=mode))
    assert messages(found, kind) == {text}


@pytest.mark.parametrize("name", LOCAL_UPDATES)
def test_a_gradient_that_is_skipped_leaves_the_worker_s_own_weights_finite(threads: Group, name: str) -> None:
    def rank(t: Transport) -> Any:
        with ParameterServer(t, MODEL.initial(), MomentumSGD(0.05), nonfinite="skip") as group:
            trainer = SSDSGD(group.worker, 3, 2, 0.05, LOCAL_UPDATES[name]())
            batches = Batches(DATA.train, 8, group.worker.index, group.worker.count)
            weights = trainer.weights
            for step in range(10):
                gradients = MODEL.gradients(weights, batches.at(step))
                if t.rank == 1 and step == 5:
                    gradients["fc1.weight"][0, 0] = np.nan
                weights = trainer.step(gradients)
                assert np.isfinite(flatten(weights)).all()
            return group.worker.skipped, flatten(trainer.finish())

    found = threads(2, rank)
    assert [skipped for skipped, _ in found] == [[], [("fc1.weight", 5)]]
    assert np.array_equal(found[0][1], found[1][1])


def test_it_goes_on_where_the_rate_falls_to_zero(threads: Group) -> None:
    """Through the end of a cosine: GLU divides by the rate."""
    for weights, _ in threads(2, lambda t: ssd(t, 2, 1, 9, Cosine(0.05, 6), GLU())):
        assert np.isfinite(weights).all()


@pytest.mark.slow
def test_it_converges_as_ssgd_does(threads: Group) -> None:
    """A short run of what `inceptionn bench layers` measures at length: 4 workers, mean of two seeds."""

    def accuracy(k: int | None, seed: int, **more: Any) -> float:
        def rank(t: Transport) -> float:
            data, model = digits(seed), MLP(64, (48,), 10)
            with ParameterServer(t, model.initial(seed), MomentumSGD(0.05), **more) as group:
                trainer = SSDSGD(group.worker, k or 1, 160 if k is None else 40, 0.05)
                batches = Batches(data.train, 16, group.worker.index, group.worker.count, seed)
                weights = trainer.weights
                for step in range(160):
                    weights = trainer.step(model.gradients(weights, batches.at(step)))
                return model.accuracy(trainer.finish(), data.test)

        return threads(4, rank)[0]

    base = np.mean([accuracy(None, seed) for seed in (0, 1)])
    assert base > 0.94
    for k in (2, 4):
        assert np.mean([accuracy(k, seed) for seed in (0, 1)]) > base - 0.015
    assert accuracy(4, 0, codec=Codec(2**-10), scale="auto") > 0.94
