# SPDX-License-Identifier: BSD-2-Clause
"""Small networks and an optimizer of torch, with the interface of those in NumPy.

They are functions of tensors, so that the ranks of one process can share a network. Importing this raises
``ModuleNotFoundError`` without torch.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.func import grad, vmap
from torch.nn import functional as F

from ....layers.parameter_server import Optimizer
from ....layers.parameters import Floats, Gradients, Parameters
from ..data import Batch
from ..models import Model

Shapes = Mapping[str, tuple[int, ...]]
Tensors = Mapping[str, torch.Tensor]
SIDE, CLASSES, HEADS = 8, 10, 4
"""Of the digits' images, and of attention."""


class Network(Model):
    """A classifier by torch, which finds the gradients.

    ``shapes``: of the parameters by key. Gains are 1 at first and biases 0; the others are drawn with a
    variance of ``variance`` over the fan-in, positions smaller. ``forward``: from parameters and inputs to
    logits.
    """

    def __init__(
        self, name: str, shapes: Shapes, variance: float,
        forward: Callable[[Tensors, torch.Tensor], torch.Tensor],
    ) -> None:  # fmt: skip
        self.name, self._shapes, self._variance, self._forward = name, shapes, variance, forward

    def initial(self, seed: int = 0) -> Parameters:
        random = np.random.default_rng(seed)
        constants = {"gain": 1, "bias": 0}
        found: Parameters = {}
        for key, shape in self._shapes.items():
            if (constant := constants.get(key.split(".")[-1])) is not None:
                found[key] = np.full(shape, constant, np.float32)
            else:
                fan_in = np.prod(shape[1:] if len(shape) > 2 else shape[:1])
                found[key] = random.normal(0, np.sqrt(self._variance / fan_in), shape).astype(np.float32)
            if key == "position":
                found[key] *= np.float32(0.1)
        return found

    def _loss(self, parameters: Tensors, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(self._forward(parameters, inputs), labels)

    def logits(self, parameters: Mapping[str, Floats], inputs: NDArray[np.generic]) -> Floats:
        found: Floats = self._forward(_tensors(parameters), torch.tensor(inputs)).numpy()
        return found

    def loss_and_gradients(self, parameters: Mapping[str, Floats], batch: Batch) -> tuple[float, Gradients]:
        tensors = {key: values.requires_grad_() for key, values in _tensors(parameters).items()}
        loss = self._loss(tensors, *map(torch.tensor, batch))
        found = torch.autograd.grad(loss, tuple(tensors.values()))
        return loss.item(), {key: values.numpy() for key, values in zip(tensors, found, strict=True)}

    def by_rank(self, parameters: Mapping[str, Floats], batches: Sequence[Batch]) -> Floats:
        inputs, labels = (torch.tensor(np.stack(parts)) for parts in zip(*batches, strict=True))
        found = vmap(grad(self._loss), (None, 0, 0))(_tensors(parameters), inputs, labels)
        return np.concatenate([values.reshape(len(batches), -1).numpy() for values in found.values()], axis=1)


def _tensors(parameters: Mapping[str, Floats]) -> dict[str, torch.Tensor]:
    return {key: torch.tensor(values) for key, values in parameters.items()}


def cnn(channels: Sequence[int] = (16, 32)) -> Network:
    """Make convolutions 3 x 3 (padding 1), ReLU and 2 x 2 maximum pooling in turn, then one full layer.

    A sample is an image of 8 x 8 pixels, whose sides are halved once per entry of ``channels``, of which
    there are three at most. Keys: ``conv1.weight`` [out, in, 3, 3], ``conv1.bias`` [out], …, ``fc.weight``
    [in, 10], ``fc.bias``.
    """
    shapes: dict[str, tuple[int, ...]] = {}
    for layer, (fan_in, fan_out) in enumerate(pairwise((1, *channels)), 1):
        shapes |= {f"conv{layer}.weight": (fan_out, fan_in, 3, 3), f"conv{layer}.bias": (fan_out,)}
    features = channels[-1] * (SIDE >> len(channels)) ** 2
    shapes |= {"fc.weight": (features, CLASSES), "fc.bias": (CLASSES,)}

    def forward(p: Tensors, inputs: torch.Tensor) -> torch.Tensor:
        x = inputs.reshape(-1, 1, SIDE, SIDE)
        for layer in range(1, len(channels) + 1):
            z = F.conv2d(x, p[f"conv{layer}.weight"], p[f"conv{layer}.bias"], padding=1)
            x = F.max_pool2d(F.relu(z), 2)
        return x.flatten(1) @ p["fc.weight"] + p["fc.bias"]

    return Network("cnn-" + "-".join(map(str, channels)), shapes, 2, forward)  # He et al. (2015)


def transformer(width: int = 32) -> Network:
    """Make one block of multi-head attention and a perceptron, pre-normalised, over the rows of an image.

    A sample of 8 x 8 pixels is a sequence of 8. They are embedded in ``width`` values, a multiple of the 4
    heads, and get learnt positions; the mean over the sequence is classified (Vaswani et al., 2017;
    normalisation before each part as by Xiong et al., 2020).
    """
    shapes = {
        "embed.weight": (SIDE, width), "position": (SIDE, width),
        "norm1.gain": (width,), "norm1.bias": (width,),
        "query": (width, width), "key": (width, width), "value": (width, width), "out": (width, width),
        "norm2.gain": (width,), "norm2.bias": (width,),
        "fc1.weight": (width, 2 * width), "fc1.bias": (2 * width,),
        "fc2.weight": (2 * width, width), "fc2.bias": (width,),
        "fc.weight": (width, CLASSES), "fc.bias": (CLASSES,),
    }  # fmt: skip

    def forward(p: Tensors, samples: torch.Tensor) -> torch.Tensor:
        x = samples.reshape(-1, SIDE, SIDE) @ p["embed.weight"] + p["position"]
        y = F.layer_norm(x, (width,), p["norm1.gain"], p["norm1.bias"])
        queries, keys, values = (
            (y @ p[name]).unflatten(-1, (HEADS, -1)).transpose(1, 2) for name in ("query", "key", "value")
        )
        scores = queries @ keys.transpose(-1, -2) * (width // HEADS) ** -0.5
        x = x + (scores.softmax(-1) @ values).transpose(1, 2).flatten(2) @ p["out"]
        y = F.layer_norm(x, (width,), p["norm2.gain"], p["norm2.bias"])
        x = x + F.relu(y @ p["fc1.weight"] + p["fc1.bias"]) @ p["fc2.weight"] + p["fc2.bias"]
        return x.mean(1) @ p["fc.weight"] + p["fc.bias"]

    return Network(f"transformer-{width}-{HEADS}", shapes, 1, forward)


class Adam(Optimizer):
    """Adam of torch (Kingma and Ba, ICLR 2015), for weights in one array."""

    def __init__(self, rate: float) -> None:
        self.rate = rate
        self._made: torch.optim.Optimizer | None = None

    def update(self, partition: Any, weights: Floats, gradient: Floats, step: int, rows: Any = None) -> None:
        if self._made is None:
            self._weights = torch.nn.Parameter(torch.from_numpy(weights))  # they share memory
            self._made = torch.optim.Adam([self._weights], self.rate)
        self._weights.grad = torch.from_numpy(gradient)
        self._made.step()
