# SPDX-License-Identifier: BSD-2-Clause
"""Models against finite differences and answers by hand; data sets and batches."""

import numpy as np
import pytest

from inceptionn.evaluate.training import (
    CNN,
    MLP,
    Batch,
    Batches,
    EmbeddingClassifier,
    Model,
    Momentum,
    RowSparse,
    SoftmaxRegression,
    Transformer,
    count_of,
    digits,
    flatten,
    unflatten,
    zipf_documents,
)


def test_momentum_by_hand() -> None:
    change, gradient = Momentum(0.5, 0.75), np.array([4, -2], np.float32)
    assert [change(gradient).tolist() for _ in range(2)] == [[-2, 1], [-3.5, 1.75]]


def test_softmax_regression_by_hand() -> None:
    """Zero weights: every class has probability 1/2, the loss is ln 2, the gradient +-x/2."""
    model = SoftmaxRegression(2, 2)
    parameters = {key: np.zeros_like(value) for key, value in model.initial().items()}
    batch = Batch(np.array([[1, 3]], np.float32), np.array([0]))
    loss, found = model.loss_and_gradients(parameters, batch)
    assert loss == pytest.approx(np.log(2))
    assert found["fc1.weight"].tolist() == [[-0.5, 0.5], [-1.5, 1.5]]
    assert found["fc1.bias"].tolist() == [-0.5, 0.5]


@pytest.mark.parametrize(
    "model",
    [
        SoftmaxRegression(64, 10),
        MLP(64, (12, 7), 10),
        CNN(channels=(3, 4)),
        CNN(channels=(2,)),
        EmbeddingClassifier(30, 4, 5),
        Transformer(width=8, heads=2),
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


@pytest.mark.parametrize("model", [SoftmaxRegression(), MLP(), CNN()], ids=lambda model: model.name)
def test_they_learn_the_digits(model: Model) -> None:
    data = digits()
    assert (len(data.train), len(data.test)) == (1437, 360)
    parameters = model.initial()
    velocity = np.zeros(count_of(parameters), np.float32)
    batches = Batches(data.train, 64)
    for step in range(5 * batches.steps_per_epoch):
        velocity = np.float32(0.9) * velocity + flatten(model.gradients(parameters, batches.at(step)))
        parameters = unflatten(flatten(parameters) - np.float32(0.05) * velocity, parameters)
    assert model.accuracy(parameters, data.test) > 0.9
    assert all(value.dtype == np.float32 for value in parameters.values())


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
    with pytest.raises(ValueError, match=r"size must be 1\.\.16 for 3 workers, not 17"):
        Batches(data, 17, 0, 3)
    with pytest.raises(ValueError, match=r"worker must be 0\.\.2, not 3"):
        Batches(data, 1, 3, 3)


def test_flatten_and_back() -> None:
    parameters = MLP(3, (2,), 2).initial()
    vector = flatten(parameters)
    assert vector.size == count_of(parameters) == 3 * 2 + 2 + 2 * 2 + 2
    back = unflatten(vector, parameters)
    assert all(np.array_equal(back[key], parameters[key]) for key in parameters)
    with pytest.raises(ValueError, match="must hold 14 values, not 13"):
        unflatten(vector[:-1], parameters)
