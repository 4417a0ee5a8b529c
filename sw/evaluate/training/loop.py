# SPDX-License-Identifier: BSD-2-Clause
"""Data-parallel training in one process: the gradients of all ranks are the rows of one array."""

from collections.abc import Callable
from types import ModuleType
from typing import Any, cast

import numpy as np

from ...layers.parameter_server import MomentumSGD, Optimizer
from ...layers.parameter_server.plan import Partition
from ...layers.parameters import Floats, Parameters, flatten, unflatten
from .data import Batches, digits, require_torch
from .models import MLP, Model

MODELS = ("mlp", "cnn", "transformer")
OPTIMIZERS = ("sgd", "adam")


def model_of(name: str, **settings: Any) -> Model:
    """Make one of `MODELS`, with the arguments of `MLP`, `torch.networks.cnn` or `transformer`.

    Raises ``ModuleNotFoundError`` for all but the perceptron without torch.
    """
    if name == "mlp":
        return MLP(**settings)
    networks = _networks()
    model: Model = (networks.cnn if name == "cnn" else networks.transformer)(**settings)
    return model


def optimizer_of(name: str) -> Optimizer:
    """Make one of `OPTIMIZERS`: momentum, or Adam, which raises ``ModuleNotFoundError`` without torch."""
    return MomentumSGD(0.05, 0.9) if name == "sgd" else cast("Optimizer", _networks().Adam(0.002))


def _networks() -> ModuleType:
    require_torch()
    from .torch import networks

    return networks


class Trainer:
    """A model that learns the digits: the weights that all ranks share, and each rank's batches.

    ``optimizer``: of this trainer alone. ``batch``: samples of each rank in a step. ``seed``: of the data's
    split, the first weights and the batches. Attributes: ``weights``, float32[values], updated in
    place; ``data``; ``steps_per_epoch``.
    """

    def __init__(self, model: Model, optimizer: Optimizer, ranks: int, batch: int, seed: int = 0) -> None:
        self.model, self.data, self.ranks = model, digits(seed), ranks
        self.shapes = model.initial(seed)
        self.weights = flatten(self.shapes)
        self._optimizer, self._whole = optimizer, Partition(0, "", 0, 0, self.weights.size)
        self._batches = [Batches(self.data.train, batch, rank, ranks, seed) for rank in range(ranks)]
        self.steps_per_epoch = self._batches[0].steps_per_epoch

    @property
    def parameters(self) -> Parameters:
        """View the weights by key."""
        return unflatten(self.weights, self.shapes)

    def gradients(self, step: int) -> Floats:
        """Return float32[ranks, values], those of a step's batches."""
        return self.model.by_rank(self.parameters, [batches.at(step) for batches in self._batches])

    def apply(self, mean: Floats, step: int) -> None:
        """Update the weights by a mean gradient, which is overwritten."""
        self._optimizer.update(self._whole, self.weights, mean, step)

    def loss(self) -> float:
        """Return the cross-entropy of the test set, in nats."""
        return self.model.loss(self.parameters, self.data.test)

    def accuracy(self) -> float:
        """Return the accuracy on the test set, 0..1."""
        return self.model.accuracy(self.parameters, self.data.test)


def mean_of(gradients: Floats) -> Floats:
    """Return the exact mean of all ranks' gradients."""
    return gradients.sum(axis=0) / np.float32(len(gradients))


@np.errstate(over="ignore", invalid="ignore")  # a training that diverges shows in its loss
def train(
    trainer: Trainer,
    steps: int,
    exchange: Callable[[Floats], Floats] = mean_of,
    before: Callable[[int, Floats], None] = lambda step, gradients: None,
    after: Callable[[int], bool | None] = lambda step: None,
) -> None:
    """Train by what ``exchange`` makes of all ranks' gradients, float32[ranks, values]: one for all.

    ``before`` is given each step's number and gradients, ``after`` its number; if it returns True, the
    training ends.
    """
    for step in range(steps):
        gradients = trainer.gradients(step)
        before(step, gradients)
        trainer.apply(exchange(gradients), step)
        if after(step):
            break
