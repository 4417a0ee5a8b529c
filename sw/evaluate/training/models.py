# SPDX-License-Identifier: BSD-2-Clause
"""Small classifiers: parameters by key, and their gradients. A perceptron and an embedding in NumPy.

All compute the mean cross-entropy of a softmax over a batch in float32. They have no state: each call is
given the dictionary of parameters. `torch.networks` has those that need torch.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ...layers.parameters import Floats, Gradients, Parameters, RowSparse, flatten
from .data import Batch

_EVALUATED = 1024
"""Samples whose logits `Model.accuracy` computes at a time."""


class Model(ABC):
    """A classifier. All ``parameters`` have the keys and shapes of `initial`."""

    name: str

    @abstractmethod
    def initial(self, seed: int = 0) -> Parameters:
        """Return initial parameters, the same on all machines: He initialisation, biases zero."""

    @abstractmethod
    def logits(self, parameters: Mapping[str, Floats], inputs: NDArray[np.generic]) -> Floats:
        """Return float32[n, classes] for n samples."""

    @abstractmethod
    def loss_and_gradients(self, parameters: Mapping[str, Floats], batch: Batch) -> tuple[float, Gradients]:
        """Return the mean cross-entropy of a batch, and its gradient by key, in the keys' order."""

    def gradients(self, parameters: Mapping[str, Floats], batch: Batch) -> Gradients:
        """Return the gradient alone: float32 of the parameters' shapes by key, or `RowSparse`."""
        return self.loss_and_gradients(parameters, batch)[1]

    def by_rank(self, parameters: Mapping[str, Floats], batches: Sequence[Batch]) -> Floats:
        """Return float32[ranks, values], the gradient of each rank's batch; all batches have one size."""
        return np.stack([flatten(self.gradients(parameters, batch)) for batch in batches])

    def rows(self, batch: Batch) -> dict[str, NDArray[np.int64]]:
        """Return the rows that a batch looks up, ascending and distinct, by key of the embedding."""
        return {}

    def loss(self, parameters: Mapping[str, Floats], batch: Batch) -> float:
        """Return the mean cross-entropy alone, in nats."""
        return softmax_cross_entropy(self.logits(parameters, batch.inputs), batch.labels)[0]

    def accuracy(self, parameters: Mapping[str, Floats], data: Batch) -> float:
        """Return the share of samples, 0..1, whose largest logit is their label's."""
        right = 0
        for start in range(0, len(data), _EVALUATED):
            part = slice(start, start + _EVALUATED)
            found = self.logits(parameters, data.inputs[part]).argmax(axis=1)
            right += int((found == data.labels[part]).sum())
        return right / max(1, len(data))


def softmax_cross_entropy(logits: Floats, labels: NDArray[np.int64]) -> tuple[float, Floats]:
    """Return the mean cross-entropy of float32[n, classes], and its derivative with respect to the logits."""
    shifted = logits - logits.max(axis=1, keepdims=True)
    p = np.exp(shifted)
    total = p.sum(axis=1, keepdims=True)
    rows = np.arange(len(labels))
    loss = float((np.log(total[:, 0]) - shifted[rows, labels]).mean())
    p /= total
    p[rows, labels] -= 1
    p /= np.float32(len(labels))
    return loss, p


def _he(random: np.random.Generator, shape: Sequence[int], fan_in: int) -> Floats:
    return random.normal(0, np.sqrt(2 / fan_in), shape).astype(np.float32)


class MLP(Model):
    """A multi-layer perceptron with ReLU: keys ``fc1.weight`` [in, out], ``fc1.bias`` [out], ``fc2…``.

    Without ``hidden`` it is softmax regression. Values: the sum of in*out + out over the layers.
    """

    def __init__(self, inputs: int = 64, hidden: Sequence[int] = (48,), classes: int = 10) -> None:
        self.sizes = (inputs, *hidden, classes)
        if min(self.sizes) < 1:
            raise ValueError(f"layer sizes must be at least 1, not {self.sizes!r}")
        self.layers = len(self.sizes) - 1
        self.name = "mlp-" + "-".join(map(str, self.sizes))

    def initial(self, seed: int = 0) -> Parameters:
        random = np.random.default_rng(seed)
        parameters: Parameters = {}
        for layer, (fan_in, fan_out) in enumerate(pairwise(self.sizes), 1):
            parameters[f"fc{layer}.weight"] = _he(random, (fan_in, fan_out), fan_in)
            parameters[f"fc{layer}.bias"] = np.zeros(fan_out, np.float32)
        return parameters

    def _forward(self, parameters: Mapping[str, Floats], inputs: Floats) -> list[Floats]:
        """Return the input and the output of each layer; the last one is the logits."""
        outputs = [inputs.reshape(len(inputs), -1)]
        for layer in range(1, self.layers + 1):
            z = outputs[-1] @ parameters[f"fc{layer}.weight"]
            z += parameters[f"fc{layer}.bias"]
            outputs.append(z if layer == self.layers else np.maximum(z, 0, out=z))
        return outputs

    def logits(self, parameters: Mapping[str, Floats], inputs: NDArray[np.generic]) -> Floats:
        return self._forward(parameters, np.asarray(inputs, np.float32))[-1]

    def loss_and_gradients(self, parameters: Mapping[str, Floats], batch: Batch) -> tuple[float, Gradients]:
        outputs = self._forward(parameters, batch.inputs)
        loss, d = softmax_cross_entropy(outputs[-1], batch.labels)
        found: Gradients = {}
        for layer in range(self.layers, 0, -1):
            found[f"fc{layer}.weight"] = outputs[layer - 1].T @ d
            found[f"fc{layer}.bias"] = d.sum(axis=0)
            if layer > 1:
                d = (d @ parameters[f"fc{layer}.weight"].T) * (outputs[layer - 1] > 0)
        return loss, {key: found[key] for key in parameters}


class EmbeddingClassifier(Model):
    """The mean of a document's word vectors, then softmax regression: a large sparse and a small dense part.

    Inputs: int64[n, length]. Keys: ``embedding`` [vocabulary, width], whose gradient is `RowSparse`, and
    ``fc.weight`` [width, classes], ``fc.bias``, whose gradients are dense.
    """

    def __init__(self, vocabulary: int = 20_000, width: int = 32, classes: int = 8) -> None:
        self.vocabulary, self.width, self.classes = vocabulary, width, classes
        self.name = f"embedding-{vocabulary}-{width}"

    def initial(self, seed: int = 0) -> Parameters:
        random = np.random.default_rng(seed)
        return {
            "embedding": random.normal(0, 0.1, (self.vocabulary, self.width)).astype(np.float32),
            "fc.weight": _he(random, (self.width, self.classes), self.width),
            "fc.bias": np.zeros(self.classes, np.float32),
        }

    def rows(self, batch: Batch) -> dict[str, NDArray[np.int64]]:
        return {"embedding": np.unique(batch.inputs)}

    def logits(self, parameters: Mapping[str, Floats], inputs: NDArray[np.generic]) -> Floats:
        mean: Floats = parameters["embedding"][inputs].mean(axis=1)
        return mean @ parameters["fc.weight"] + parameters["fc.bias"]

    def loss_and_gradients(self, parameters: Mapping[str, Floats], batch: Batch) -> tuple[float, Gradients]:
        n, length = batch.inputs.shape
        mean: Floats = parameters["embedding"][batch.inputs].mean(axis=1)
        logits = mean @ parameters["fc.weight"] + parameters["fc.bias"]
        loss, d = softmax_cross_entropy(logits, batch.labels)
        d_words = np.repeat(d @ parameters["fc.weight"].T / np.float32(length), length, axis=0)
        rows = RowSparse.of_lookups(batch.inputs.reshape(-1), d_words, parameters["embedding"].shape)
        return loss, {"embedding": rows, "fc.weight": mean.T @ d, "fc.bias": d.sum(axis=0)}
