# SPDX-License-Identifier: BSD-2-Clause
"""Data-parallel training in one process: the gradients of all ranks are the rows of one array."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np

from ...training import CNN, MLP, Batches, Floats, Model, Transformer, digits, flatten, unflatten

MODELS: dict[str, Callable[[], Model]] = {
    "mlp": MLP,
    "cnn": partial(CNN, channels=(8, 16)),
    "transformer": Transformer,
}
BATCH = 128
"""Samples of all ranks together in a step."""
SAMPLED = 20
"""Bytes are counted in one of this many steps, the first."""


class Compressor(Protocol):
    """A step between the ranks' gradients and their sum."""

    def __call__(self, wanted: Floats) -> Floats:
        """Return what arrives of float32[ranks, values], in the same shape."""
        ...

    def sent(self, kept: Floats) -> float:
        """Return the bytes that a rank sends for what the last call returned."""
        ...


class Optimizer(Protocol):
    """Turns a mean gradient into what is subtracted from the weights."""

    def __call__(self, gradient: Floats) -> Floats:
        """Return the step for float32[values]."""
        ...


class Momentum:
    """Stochastic gradient descent with momentum."""

    rate, momentum = np.float32(0.05), np.float32(0.9)

    def __init__(self, size: int) -> None:
        self._velocity = np.zeros(size, np.float32)

    def __call__(self, gradient: Floats) -> Floats:
        self._velocity *= self.momentum
        self._velocity += gradient
        return self.rate * self._velocity


class Adam:
    """Adam (Kingma and Ba, ICLR 2015, algorithm 1)."""

    rate, betas, epsilon = 0.002, (0.9, 0.999), np.float32(1e-8)

    def __init__(self, size: int) -> None:
        self._moments = np.zeros((2, size), np.float32)
        self._step = 0

    def __call__(self, gradient: Floats) -> Floats:
        self._step += 1
        corrected = []
        for moment, beta, value in zip(self._moments, self.betas, (gradient, gradient**2), strict=True):
            moment += np.float32(1 - beta) * (value - moment)
            corrected.append(moment / np.float32(1 - beta**self._step))
        return np.float32(self.rate) * corrected[0] / (np.sqrt(corrected[1]) + self.epsilon)


OPTIMIZERS: dict[str, Callable[[int], Optimizer]] = {"sgd": Momentum, "adam": Adam}


@dataclass
class Outcome:
    """Cross-entropy (nats) and accuracy (0..1) of the test set; ``sent``: bytes by rank and step."""

    loss: float
    accuracy: float
    sent: float


class Workers:
    """A model, its data, and all ranks' batches. Together they take the same samples at any number."""

    def __init__(self, name: str, ranks: int, seed: int) -> None:
        self.model, self.data = MODELS[name](), digits(seed)
        self.shapes = self.model.initial(seed)
        size = BATCH // ranks
        self._batches = [Batches(self.data.train, size, rank, ranks, seed) for rank in range(ranks)]

    def gradients(self, weights: Floats, step: int) -> Floats:
        """Return float32[ranks, values]."""
        return np.stack([self.gradient(weights, step, rank) for rank in range(len(self._batches))])

    def gradient(self, weights: Floats, step: int, rank: int) -> Floats:
        """Return a rank's float32[values]."""
        parameters = unflatten(weights, self.shapes)
        return flatten(self.model.gradients(parameters, self._batches[rank].at(step)))

    def outcome(self, weights: Floats, sent: float) -> Outcome:
        """Return loss and accuracy of the test set."""
        parameters, test = unflatten(weights, self.shapes), self.data.test
        return Outcome(self.model.loss(parameters, test), self.model.accuracy(parameters, test), sent)


@np.errstate(over="ignore", invalid="ignore")  # a training that diverges shows in its loss
def train(
    workers: Workers,
    optimizer: str,
    steps: int,
    compressor: Compressor | None = None,
    feedback: bool = False,
    *,
    seed: int = 0,
    seen: Callable[[int, Floats], None] = lambda step, gradients: None,
) -> Outcome:
    """Train by the mean of what arrives of all gradients. ``feedback``: the rest is added to the next ones.

    Without a compressor all of them arrive. ``seen`` is given each step's number and gradients.
    """
    weights = flatten(workers.model.initial(seed))
    step_of = OPTIMIZERS[optimizer](weights.size)
    residuals: Floats | None = None
    sent = []
    for step in range(steps):
        wanted = workers.gradients(weights, step)
        seen(step, wanted)
        kept = wanted
        if compressor is not None:
            if residuals is not None:
                wanted += residuals
            kept = compressor(wanted)
            if feedback:
                residuals = wanted - kept
            if step % SAMPLED == 0:
                sent.append(compressor.sent(kept))
        weights -= step_of(kept.sum(axis=0) / np.float32(len(kept)))
    raw = 8 * weights.size * (len(kept) - 1) / len(kept)
    return workers.outcome(weights, float(np.mean(sent)) if sent else raw)
