# SPDX-License-Identifier: BSD-2-Clause
"""A small transformer in NumPy."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...layers.parameters import Floats, Gradients, Parameters
from .data import Batch
from .models import Model, softmax_cross_entropy

_EPSILON = 1e-5


class _Normalised(NamedTuple):
    """A layer normalisation: its output, and what its derivative takes."""

    y: Floats
    x_hat: Floats
    inverse: Floats


def _normalise(x: Floats, gain: Floats, bias: Floats) -> _Normalised:
    centred = x - x.mean(axis=-1, keepdims=True)
    inverse = 1 / np.sqrt(np.square(centred).mean(axis=-1, keepdims=True) + np.float32(_EPSILON))
    x_hat = centred * inverse
    return _Normalised(x_hat * gain + bias, x_hat, inverse)


def _normalise_back(d: Floats, found: _Normalised, gain: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the derivatives with respect to input, gain and bias."""
    d_hat = d * gain
    mean, along = d_hat.mean(axis=-1, keepdims=True), (d_hat * found.x_hat).mean(axis=-1, keepdims=True)
    d_x = found.inverse * (d_hat - mean - found.x_hat * along)
    return d_x, (d * found.x_hat).sum(axis=(0, 1)), d.sum(axis=(0, 1))


class _Seen(NamedTuple):
    """The values that the forward pass of a batch keeps for the backward pass."""

    tokens: Floats
    norm1: _Normalised
    queries: Floats
    keys: Floats
    values: Floats
    attention: Floats
    mixed: Floats
    norm2: _Normalised
    inner: Floats
    pooled: Floats


class Transformer(Model):
    """One block of multi-head attention and a perceptron, pre-normalised, over the rows of an image.

    A sample of ``tokens * inputs`` values is a sequence of ``tokens``. They are embedded in ``width`` values
    and get learnt positions; the mean over the sequence is classified (Vaswani et al., 2017; normalisation
    before each part as by Xiong et al., 2020). Keys: ``embed.weight`` [inputs, width], ``position``
    [tokens, width], ``norm1.gain``, ``norm1.bias``, ``query``, ``key``, ``value``, ``out`` [width, width],
    ``norm2.gain``, ``norm2.bias``, ``fc1.weight`` [width, 2 width], ``fc1.bias``, ``fc2.weight``,
    ``fc2.bias``, ``fc.weight`` [width, classes], ``fc.bias``.

    Raises ``ValueError`` unless ``heads`` divides ``width``.
    """

    def __init__(
        self, tokens: int = 8, inputs: int = 8, width: int = 32, heads: int = 4, classes: int = 10
    ) -> None:
        if width % heads:
            raise ValueError(f"heads must divide the width of {width}, not {heads!r}")
        self.tokens, self.inputs, self.width, self.heads, self.classes = tokens, inputs, width, heads, classes
        self.name = f"transformer-{width}-{heads}"

    def initial(self, seed: int = 0) -> Parameters:
        random, w = np.random.default_rng(seed), self.width

        def drawn(*shape: int) -> Floats:
            return random.normal(0, np.sqrt(1 / shape[0]), shape).astype(np.float32)

        def constant(value: float, size: int) -> Floats:
            return np.full(size, value, np.float32)

        return {
            "embed.weight": drawn(self.inputs, w), "position": 0.1 * drawn(self.tokens, w),
            "norm1.gain": constant(1, w), "norm1.bias": constant(0, w),
            "query": drawn(w, w), "key": drawn(w, w), "value": drawn(w, w), "out": drawn(w, w),
            "norm2.gain": constant(1, w), "norm2.bias": constant(0, w),
            "fc1.weight": drawn(w, 2 * w), "fc1.bias": constant(0, 2 * w),
            "fc2.weight": drawn(2 * w, w), "fc2.bias": constant(0, w),
            "fc.weight": drawn(w, self.classes), "fc.bias": constant(0, self.classes),
        }  # fmt: skip

    def _apart(self, x: Floats) -> Floats:
        """Reshape [n, tokens, width] to [n, heads, tokens, width / heads]."""
        return x.reshape(len(x), self.tokens, self.heads, -1).transpose(0, 2, 1, 3)

    def _together(self, x: Floats) -> Floats:
        return x.transpose(0, 2, 1, 3).reshape(len(x), self.tokens, self.width)

    @property
    def _scale(self) -> np.float32:
        return np.float32((self.width // self.heads) ** -0.5)

    def _forward(self, p: Mapping[str, Floats], inputs: Floats) -> tuple[Floats, _Seen]:
        tokens = inputs.reshape(len(inputs), self.tokens, self.inputs)
        x = tokens @ p["embed.weight"] + p["position"]
        norm1 = _normalise(x, p["norm1.gain"], p["norm1.bias"])
        queries, keys, values = (self._apart(norm1.y @ p[name]) for name in ("query", "key", "value"))
        scores = queries @ keys.swapaxes(-1, -2) * self._scale
        attention = np.exp(scores - scores.max(axis=-1, keepdims=True))
        attention /= attention.sum(axis=-1, keepdims=True)
        mixed = self._together(attention @ values)
        x = x + mixed @ p["out"]
        norm2 = _normalise(x, p["norm2.gain"], p["norm2.bias"])
        inner = np.maximum(norm2.y @ p["fc1.weight"] + p["fc1.bias"], 0)
        x = x + inner @ p["fc2.weight"] + p["fc2.bias"]
        pooled = x.mean(axis=1)
        seen = _Seen(tokens, norm1, queries, keys, values, attention, mixed, norm2, inner, pooled)
        return pooled @ p["fc.weight"] + p["fc.bias"], seen

    def logits(self, parameters: Mapping[str, Floats], inputs: NDArray[np.generic]) -> Floats:
        return self._forward(parameters, np.asarray(inputs, np.float32))[0]

    def loss_and_gradients(self, parameters: Mapping[str, Floats], batch: Batch) -> tuple[float, Gradients]:
        p = parameters
        logits, seen = self._forward(p, batch.inputs)
        loss, d_logits = softmax_cross_entropy(logits, batch.labels)
        found: dict[str, Floats] = {"fc.weight": seen.pooled.T @ d_logits, "fc.bias": d_logits.sum(axis=0)}
        pooled = d_logits @ p["fc.weight"].T / np.float32(self.tokens)
        d = np.repeat(pooled[:, np.newaxis], self.tokens, axis=1)

        found["fc2.weight"], found["fc2.bias"] = _outer(seen.inner, d), d.sum(axis=(0, 1))
        d_inner = (d @ p["fc2.weight"].T) * (seen.inner > 0)
        found["fc1.weight"], found["fc1.bias"] = _outer(seen.norm2.y, d_inner), d_inner.sum(axis=(0, 1))
        back, found["norm2.gain"], found["norm2.bias"] = _normalise_back(
            d_inner @ p["fc1.weight"].T, seen.norm2, p["norm2.gain"]
        )
        d = d + back

        found["out"] = _outer(seen.mixed, d)
        d_mixed = self._apart(d @ p["out"].T)
        d_attention = d_mixed @ seen.values.swapaxes(-1, -2)
        along = (d_attention * seen.attention).sum(axis=-1, keepdims=True)
        d_scores = seen.attention * (d_attention - along) * self._scale
        d_norm1 = np.zeros_like(d)
        for name, part in (
            ("query", d_scores @ seen.keys),
            ("key", d_scores.swapaxes(-1, -2) @ seen.queries),
            ("value", seen.attention.swapaxes(-1, -2) @ d_mixed),
        ):
            flat = self._together(part)
            found[name] = _outer(seen.norm1.y, flat)
            d_norm1 += flat @ p[name].T
        back, found["norm1.gain"], found["norm1.bias"] = _normalise_back(d_norm1, seen.norm1, p["norm1.gain"])
        d = d + back
        found["embed.weight"], found["position"] = _outer(seen.tokens, d), d.sum(axis=0)
        return loss, {key: found[key] for key in p}


def _outer(x: Floats, d: Floats) -> Floats:
    """Return the derivative with respect to a matrix that multiplies every token."""
    product: Floats = x.reshape(-1, x.shape[-1]).T @ d.reshape(-1, d.shape[-1])
    return product
