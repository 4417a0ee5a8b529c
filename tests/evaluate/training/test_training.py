# SPDX-License-Identifier: BSD-2-Clause
"""Models against finite differences and answers by hand; data sets and batches."""

from typing import Any

import numpy as np
import pytest
from refusals import refused

from inceptionn.evaluate.training import (
    MLP,
    Batch,
    Batches,
    EmbeddingClassifier,
    Model,
    Trainer,
    count_of,
    digits,
    flatten,
    model_of,
    train,
    unflatten,
    zipf_documents,
)
from inceptionn.evaluate.training.loop import MODELS, OPTIMIZERS, optimizer_of
from inceptionn.layers.parameters import RowSparse


def test_softmax_regression_by_hand() -> None:
    """Zero weights: every class has probability 1/2, the loss is ln 2, the gradient +-x/2."""
    model = MLP(2, (), 2)
    parameters = {key: np.zeros_like(value) for key, value in model.initial().items()}
    batch = Batch(np.array([[1, 3]], np.float32), np.array([0]))
    loss, found = model.loss_and_gradients(parameters, batch)
    assert loss == pytest.approx(np.log(2))
    assert found["fc1.weight"].tolist() == [[-0.5, 0.5], [-1.5, 1.5]]
    assert found["fc1.bias"].tolist() == [-0.5, 0.5]


@pytest.mark.parametrize(
    "model",
    [
        MLP(64, (), 10),
        MLP(64, (12, 7), 10),
        EmbeddingClassifier(30, 4, 5),
    ],
    ids=lambda model: model.name,
)
def test_gradients_are_those_of_finite_differences(model: Model) -> None:
    random = np.random.default_rng(1)
    if isinstance(model, EmbeddingClassifier):
        batch = Batch(random.integers(0, 30, (6, 5)), random.integers(0, 5, 6))
    else:
        batch = Batch(random.random((6, 64)).astype(np.float32), random.integers(0, 10, 6))
    # Away from the ReLU's kink, and in float64, where differences are exact enough.
    parameters = {key: value.astype(np.float64) for key, value in model.initial(2).items()}
    for key, value in parameters.items():
        if key.endswith("bias"):
            value += random.normal(0, 0.1, value.shape)
    _, found = model.loss_and_gradients(parameters, batch)
    assert list(found) == list(parameters)
    for key, value in parameters.items():
        gradient = found[key].dense() if isinstance(found[key], RowSparse) else found[key]
        assert gradient.shape == value.shape
        for place in random.integers(0, value.size, 8):
            at = np.unravel_index(place, value.shape)
            before, step = value[at], 1e-5
            value[at] = before + step
            above = model.loss(parameters, batch)
            value[at] = before - step
            below = model.loss(parameters, batch)
            value[at] = before
            assert gradient[at] == pytest.approx((above - below) / (2 * step), abs=2e-4), key


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("name", MODELS)
def test_they_learn_the_digits(name: str, optimizer: str) -> None:
    if (name, optimizer) != ("mlp", "sgd"):
        pytest.importorskip("torch")
    trainer = Trainer(model_of(name), optimizer_of(optimizer), 2, 32)
    assert (len(trainer.data.train), len(trainer.data.test)) == (1437, 360)
    before = trainer.loss()
    train(trainer, 5 * trainer.steps_per_epoch)
    assert trainer.loss() < before / 4
    assert trainer.accuracy() > 0.85
    assert trainer.weights.dtype == np.float32


@pytest.mark.parametrize("settings", [{"name": "cnn", "channels": (3,)}, {"name": "transformer", "width": 8}])
def test_gradients_of_ranks_are_those_of_each_alone(settings: dict[str, Any]) -> None:
    """Those of all ranks are one vectorised call; the slope of the loss along them is their square."""
    pytest.importorskip("torch")
    model, data = model_of(**settings), digits()
    parameters = model.initial(1)
    batches = [Batches(data.train, 8, rank, 3).at(0) for rank in range(3)]
    together = model.by_rank(parameters, batches)
    for batch, found in zip(batches, together, strict=True):
        assert np.allclose(found, flatten(model.gradients(parameters, batch)), atol=1e-6)
        weights, step = flatten(parameters), np.float32(1e-3)
        losses = [model.loss(unflatten(weights + sign * step * found, parameters), batch) for sign in (1, -1)]
        assert (losses[0] - losses[1]) / (2 * step) == pytest.approx(float(found @ found), rel=0.02)


def test_a_training_by_hand() -> None:
    """Momentum of 0.9 and a rate of 0.05; what an exchange returns is the mean that counts."""
    trainer, ones = Trainer(MLP(), optimizer_of("sgd"), 4, 8, seed=2), np.ones(3610, np.float32)
    begin, seen = trainer.weights.copy(), []

    def keep(step: int, gradients: Any) -> None:
        seen.append(gradients.shape)

    train(trainer, 3, lambda gradients: ones.copy(), keep, after=lambda step: step == 1)
    assert seen == 2 * [(4, 3610)]
    assert np.allclose(begin - trainer.weights, 0.05 + 0.05 * 1.9, atol=1e-6)


def test_the_embedding_model_learns_and_its_gradient_names_few_rows() -> None:
    data = zipf_documents(5000, samples=2000, classes=4)
    model = EmbeddingClassifier(5000, 8, 4)
    parameters = model.initial()
    batches = Batches(data.train, 32)
    for step in range(150):
        found = model.gradients(parameters, batches.at(step))
        rows = found.pop("embedding")
        assert 0 < rows.alpha < 0.1
        parameters["embedding"][rows.rows] -= 20 * rows.values
        for key, gradient in found.items():
            parameters[key] -= 0.5 * gradient
    assert model.accuracy(parameters, data.test) > 0.6  # a guess is right in 0.25


def test_row_sparse_by_hand() -> None:
    rows = RowSparse.of_lookups(np.array([3, 1, 3]), np.array([[1.0], [2], [4]], np.float32), (5, 1))
    assert rows.rows.tolist() == [1, 3]
    assert rows.dense().ravel().tolist() == [0, 2, 0, 5, 0]
    assert rows.alpha == 0.4
    with pytest.raises(ValueError, match=r"rows must ascend within 0\.\.4"):
        RowSparse(np.array([3, 3]), np.zeros((2, 1), np.float32), (5, 1))
    with pytest.raises(ValueError, match=r"must be \(1, 2\), not \(1, 1\)"):
        RowSparse(np.array([3]), np.zeros((1, 1), np.float32), (5, 2))


def test_batches_are_dealt_out_without_overlap() -> None:
    data = Batch(np.arange(50, dtype=np.float32), np.arange(50))
    workers = [Batches(data, 4, worker, 3, seed=7) for worker in range(3)]
    assert workers[0].steps_per_epoch == 4
    for epoch in range(2):
        seen = [w.at(4 * epoch + step).labels for step in range(4) for w in workers]
        assert len(set(np.concatenate(seen).tolist())) == 48
    assert workers[1].at(5).labels.tolist() == Batches(data, 4, 1, 3, seed=7).at(5).labels.tolist()
    refused(ValueError, r"size must be 1\.\.16 for 3 workers, not 17", Batches, data, 17, 0, 3)
    refused(ValueError, r"worker must be 0\.\.2, not 3", Batches, data, 1, 3, 3)


def test_flatten_and_back() -> None:
    parameters = MLP(3, (2,), 2).initial()
    vector = flatten(parameters)
    assert vector.size == count_of(parameters) == 3 * 2 + 2 + 2 * 2 + 2
    back = unflatten(vector, parameters)
    assert all(np.array_equal(back[key], parameters[key]) for key in parameters)
    refused(ValueError, "must hold 14 values, not 13", unflatten, vector[:-1], parameters)
