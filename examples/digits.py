# SPDX-License-Identifier: BSD-2-Clause
"""A multi-layer perceptron on scikit-learn's handwritten digits, trained data-parallel in plain NumPy.

Small enough to read in one go, real enough that its gradients look like gradients: 64 inputs, 48
hidden units (ReLU), 10 classes (softmax, cross-entropy), stochastic gradient descent with momentum.
Every rank holds the whole model, takes its own half of each batch, and applies the mean of all
ranks' gradients, so all copies stay equal as long as every rank sees the same gradients.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

INPUTS, HIDDEN, CLASSES = 64, 48, 10
SHAPES = ((INPUTS, HIDDEN), (HIDDEN,), (HIDDEN, CLASSES), (CLASSES,))
SIZE = sum(int(np.prod(shape)) for shape in SHAPES)
"""Parameters of the network, and floats in a gradient: 3610."""


def load() -> tuple[Floats, NDArray[np.int64], Floats, NDArray[np.int64]]:
    """Load training and test set, 1437 and 360 samples.

    They are pixels in 0..1, float32[n, 64], and labels, int64[n].
    """
    from sklearn.datasets import load_digits

    pixels, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(labels))
    pixels, labels = (pixels[order] / 16).astype(np.float32), labels[order]
    return pixels[360:], labels[360:], pixels[:360], labels[:360]


def initial_weights(seed: int) -> Floats:
    """Draw He-initialised weights, biases zero, as one float32[SIZE]."""
    random = np.random.default_rng(seed)
    return np.concatenate(
        [random.normal(0, np.sqrt(2 / s[0]), s).ravel() if len(s) == 2 else np.zeros(s) for s in SHAPES]
    ).astype(np.float32)


def layers(flat: Floats) -> list[Floats]:
    """View a float32[SIZE] as the four parameter arrays of `SHAPES`."""
    ends = np.cumsum([np.prod(shape) for shape in SHAPES])
    return [part.reshape(shape) for part, shape in zip(np.split(flat, ends[:-1]), SHAPES, strict=True)]


def gradient(weights: Floats, x: Floats, labels: NDArray[np.int64]) -> tuple[float, Floats]:
    """Return the mean cross-entropy of a batch and its gradient, float32[SIZE]."""
    w1, b1, w2, b2 = layers(weights)
    hidden = np.maximum(x @ w1 + b1, 0)
    logits = hidden @ w2 + b2
    logits -= logits.max(axis=1, keepdims=True)
    p = np.exp(logits)
    p /= p.sum(axis=1, keepdims=True)
    rows = np.arange(len(labels))
    loss = -float(np.log(p[rows, labels]).mean())
    p[rows, labels] -= 1
    p /= len(labels)
    d_hidden = (p @ w2.T) * (hidden > 0)
    parts = (x.T @ d_hidden, d_hidden.sum(axis=0), hidden.T @ p, p.sum(axis=0))
    return loss, np.concatenate([part.ravel() for part in parts]).astype(np.float32)


def accuracy(weights: Floats, x: Floats, labels: NDArray[np.int64]) -> float:
    """Return the share of samples classified correctly."""
    w1, b1, w2, b2 = layers(weights)
    return float(((np.maximum(x @ w1 + b1, 0) @ w2 + b2).argmax(axis=1) == labels).mean())


def batches(seed: int, samples: int, batch: int, rank: int, ranks: int) -> Iterator[NDArray[np.int64]]:
    """Yield this rank's sample numbers for each iteration, without end.

    An epoch is a permutation that all ranks draw alike; a batch of ``batch`` samples is dealt out
    round robin. The samples after an epoch's last whole batch are left out.
    """
    random = np.random.default_rng(seed)
    while True:
        order = random.permutation(samples)
        for start in range(0, samples - batch + 1, batch):
            yield order[start : start + batch][rank::ranks]


class Momentum:
    """Stochastic gradient descent with heavy-ball momentum on a float32[SIZE], in place."""

    def __init__(self, rate: float = 0.05, momentum: float = 0.9):
        self.rate = np.float32(rate)
        self.momentum = np.float32(momentum)
        self.velocity = np.zeros(SIZE, np.float32)

    def step(self, weights: Floats, mean_gradient: Floats) -> None:
        """Update ``weights`` once."""
        self.velocity *= self.momentum
        self.velocity -= self.rate * mean_gradient
        weights += self.velocity
