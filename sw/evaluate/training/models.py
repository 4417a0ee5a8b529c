# SPDX-License-Identifier: BSD-2-Clause
"""Small classifiers in NumPy: parameters by key, and their gradients by hand.

All compute the mean cross-entropy of a softmax over a batch in float32. They have no state: each call is
given the dictionary of parameters.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from ...layers.parameters import Floats, Gradients, Parameters, RowSparse
from .data import Batch

_EVALUATED = 1024
"""Samples whose logits `Model.accuracy` computes at a time."""


class Model(ABC):
    """A classifier. All ``parameters`` have the keys and shapes of `initial`."""

    name: str

    @abstractmethod
    def initial(self, seed: int = 0) -> Parameters:
        """Return initial parameters: He initialisation, biases zero.

        They are the same on all machines for a seed.
        """

    @abstractmethod
    def logits(self, parameters: Mapping[str, Floats], inputs: NDArray[np.generic]) -> Floats:
        """Return float32[n, classes] for n samples."""

    @abstractmethod
    def loss_and_gradients(self, parameters: Mapping[str, Floats], batch: Batch) -> tuple[float, Gradients]:
        """Return the mean cross-entropy of a batch, and its gradient by key, in the keys' order."""

    def gradients(self, parameters: Mapping[str, Floats], batch: Batch) -> Gradients:
        """Return the gradient alone.

        It has float32 arrays of the parameters' shapes by key, or `RowSparse`.
        """
        return self.loss_and_gradients(parameters, batch)[1]

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

    ``hidden`` may be empty (see `SoftmaxRegression`). Values: the sum of in*out + out over the layers.
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


class SoftmaxRegression(MLP):
    """Logistic regression with several classes: an `MLP` without a hidden layer; its loss is convex."""

    def __init__(self, inputs: int = 64, classes: int = 10) -> None:
        super().__init__(inputs, (), classes)
        self.name = f"softmax-{inputs}-{classes}"


class CNN(Model):
    """Convolutions 3 x 3 (padding 1), ReLU and 2 x 2 maximum pooling in turn, then one full layer.

    ``image``: channels, height and width of a sample, which is given flat or in this shape; height and width
    are halved once per entry of ``channels``. Keys: ``conv1.weight`` [out, in, 3, 3], ``conv1.bias`` [out],
    …, ``fc.weight`` [in, classes], ``fc.bias``.
    """

    def __init__(
        self, image: tuple[int, int, int] = (1, 8, 8), channels: Sequence[int] = (16, 32), classes: int = 10
    ) -> None:
        self.image, self.channels, self.classes = image, tuple(channels), classes
        scale = 2 ** len(self.channels)
        if image[1] % scale or image[2] % scale:
            raise ValueError(f"the sides of image must be multiples of {scale}, not {image!r}")
        self.features = self.channels[-1] * (image[1] // scale) * (image[2] // scale)
        self.name = "cnn-" + "-".join(map(str, self.channels))

    def initial(self, seed: int = 0) -> Parameters:
        random = np.random.default_rng(seed)
        parameters: Parameters = {}
        for layer, (fan_in, fan_out) in enumerate(pairwise((self.image[0], *self.channels)), 1):
            parameters[f"conv{layer}.weight"] = _he(random, (fan_out, fan_in, 3, 3), 9 * fan_in)
            parameters[f"conv{layer}.bias"] = np.zeros(fan_out, np.float32)
        parameters["fc.weight"] = _he(random, (self.features, self.classes), self.features)
        parameters["fc.bias"] = np.zeros(self.classes, np.float32)
        return parameters

    def _convolved(self, x: Floats, weight: Floats, bias: Floats) -> tuple[Floats, Floats]:
        """Return float32[n, out, h, w], and the patches of ``x`` as float32[n*h*w, in*9]."""
        n, _, h, w = x.shape
        padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
        windows = sliding_window_view(padded, (3, 3), axis=(2, 3))
        patches = windows.transpose(0, 2, 3, 1, 4, 5).reshape(n * h * w, -1)
        z = patches @ weight.reshape(len(weight), -1).T
        z += bias
        return z.reshape(n, h, w, -1).transpose(0, 3, 1, 2), patches

    def _forward(
        self, parameters: Mapping[str, Floats], inputs: Floats
    ) -> tuple[Floats, Floats, list[tuple[Floats, NDArray[np.int64]]]]:
        """Return logits, the features before the full layer, and per layer its patches and largest places."""
        x = inputs.reshape(-1, *self.image)
        seen = []
        for layer in range(1, len(self.channels) + 1):
            z, patches = self._convolved(
                x, parameters[f"conv{layer}.weight"], parameters[f"conv{layer}.bias"]
            )
            n, c, h, w = z.shape
            pools = z.reshape(n, c, h // 2, 2, w // 2, 2).transpose(0, 1, 2, 4, 3, 5).reshape(-1, 4)
            places = pools.argmax(axis=1)
            x = np.maximum(pools[np.arange(len(pools)), places], 0).reshape(n, c, h // 2, w // 2)
            seen.append((patches, places))
        features = x.reshape(len(x), -1)
        return features @ parameters["fc.weight"] + parameters["fc.bias"], features, seen

    def logits(self, parameters: Mapping[str, Floats], inputs: NDArray[np.generic]) -> Floats:
        return self._forward(parameters, np.asarray(inputs, np.float32))[0]

    def loss_and_gradients(self, parameters: Mapping[str, Floats], batch: Batch) -> tuple[float, Gradients]:
        logits, features, seen = self._forward(parameters, batch.inputs)
        loss, d_logits = softmax_cross_entropy(logits, batch.labels)
        found: Gradients = {"fc.weight": features.T @ d_logits, "fc.bias": d_logits.sum(axis=0)}
        d = (d_logits @ parameters["fc.weight"].T) * (features > 0)  # after the last pooling and its ReLU
        n = len(features)
        h, w = self.image[1] >> len(seen), self.image[2] >> len(seen)
        for layer in range(len(seen), 0, -1):
            patches, places = seen[layer - 1]
            weight = parameters[f"conv{layer}.weight"]
            out, within = weight.shape[:2]
            pools = np.zeros((n * out * h * w, 4), np.float32)
            pools[np.arange(len(pools)), places] = d.reshape(-1)
            d_z = pools.reshape(n, out, h, w, 2, 2).transpose(0, 2, 4, 3, 5, 1)
            h, w = 2 * h, 2 * w
            flat = d_z.reshape(n * h * w, out)
            found[f"conv{layer}.weight"] = (flat.T @ patches).reshape(weight.shape)
            found[f"conv{layer}.bias"] = flat.sum(axis=0)
            if layer > 1:
                d_patches = (flat @ weight.reshape(out, -1)).reshape(n, h, w, within, 3, 3)
                padded = np.zeros((n, within, h + 2, w + 2), np.float32)
                for i in range(3):
                    for j in range(3):
                        padded[:, :, i : i + h, j : j + w] += d_patches[..., i, j].transpose(0, 3, 1, 2)
                d = padded[:, :, 1:-1, 1:-1].copy()
                d *= self._outputs(seen[layer - 1][0], n, h, w, within) > 0
        return loss, {key: found[key] for key in parameters}

    @staticmethod
    def _outputs(patches: Floats, n: int, h: int, w: int, channels: int) -> Floats:
        """Return the output of the previous layer.

        It is the centres of the patches, float32[n, channels, h, w].
        """
        return patches.reshape(n, h, w, channels, 9)[..., 4].transpose(0, 3, 1, 2)


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
