# SPDX-License-Identifier: BSD-2-Clause
"""Adaptive Weight Precision (A2DTWP, Sec. II, Algorithm 1): how many bits of each layer's weights are sent.

What the paper leaves open, and what is done here:

- Algorithm 1 resets ``IntervalCounter`` only when bits are added, while the text speaks of "a certain
  number of batches". Here, as in the algorithm, batches below the threshold need not be consecutive.
- It has no upper limit; bits stop at 32 here.
- The first batch has no earlier norm, so nothing is compared. A norm that was zero counts as unchanged if it
  still is, else as an infinite change.
- Its thresholds are negative: a layer gets more bits when its norm *shrinks* faster than that, as weight
  decay makes it do; one whose norm only grows never does. The interval of "a single batch" in Sec. V-A must
  be one epoch: 4000 batches of 64 are one of ImageNet200.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...training import Floats
from ..checks import integer
from ..fields import Fields
from .adt import check_round_to, round_to_of

MOST_BITS = 32


@dataclass
class Layer:
    """A layer, or a group of keys that share a format. Attributes: ``keys``, ``bits``, ``counter``."""

    keys: tuple[str, ...]
    bits: int
    counter: int = 0
    """Batches below the threshold since bits were added last (``IntervalCounter``)."""
    norm: float | None = None
    """\\|W\\| of the previous batch."""
    squares: dict[str, float] = field(default_factory=dict)
    """Sums of squares of the present batch so far, by key."""


class AWP:
    """Bits per layer, from 8 on, as the weights' l2-norms ask for.

    Call `observe` for each key after each batch, or `step` for all of them.

    Parameters
    ----------
    layers
        Names of layers, each with its keys; a sequence of keys makes each key a layer. See `residual_blocks`
        for groups. Keys that are named nowhere (biases) are sent whole.
    threshold
        T, compared with the relative change of the norm per batch. Sec. V-A finds it by watching the average
        change in a short run: -5e-2 AlexNet, -2e-3 VGG, -2e-5 ResNet.
    interval
        INTERVAL: how many batches below T add bits. The paper has 2000 to 4000, about one epoch.
    increment
        N, bits that are added; 8 in the paper, since ADT keeps whole bytes.
    initial
        Bits of all layers at first, 8 in the paper.

    ``ValueError`` for a threshold that is not finite, an interval below 1, an increment or initial bits
    outside 1..32, no layer, or a key in two of them; ``TypeError`` for numbers that are not whole.
    """

    def __init__(
        self,
        layers: Mapping[str, Sequence[str]] | Sequence[str],
        *,
        threshold: float = -2e-3,
        interval: int = 2000,
        increment: int = 8,
        initial: int = 8,
    ) -> None:
        if not math.isfinite(threshold):
            raise ValueError(f"threshold must be finite, not {threshold!r}")
        for name, whole in (("interval", interval), ("increment", increment), ("initial", initial)):
            integer(name, whole)
        if interval < 1:
            raise ValueError(f"interval must be at least 1 batch, not {interval!r}")
        for name, bits in (("increment", increment), ("initial", initial)):
            if not 1 <= bits <= MOST_BITS:
                raise ValueError(f"{name} must be 1..32 bits, not {bits!r}")
        named = layers if isinstance(layers, Mapping) else {key: (key,) for key in layers}
        if not named or not all(named.values()):
            raise ValueError(f"there must be layers, and keys in each of them, not {layers!r}")
        self.threshold, self.interval, self.increment = float(threshold), interval, increment
        self.layers = {name: Layer(tuple(keys), initial) for name, keys in named.items()}
        self._layer_of: dict[str, Layer] = {}
        for layer in self.layers.values():
            for key in layer.keys:
                if key in self._layer_of:
                    raise ValueError(f"key {key!r} is in two layers")
                self._layer_of[key] = layer
        self.name = (
            f"AWP T {self.threshold!r}, INTERVAL {interval}, N {increment}, from {initial}, "
            f"{ {name: layer.keys for name, layer in self.layers.items()} }"
        )

    def observe(self, key: str, weights: Floats) -> None:
        """Takes a key's weights after a batch (lines 6 to 13 once a layer's keys are complete). O(size).

        Keys come in any order, each once per batch. Where a layer has keys that never come, as on a server
        that holds some of them, its norm is that of those which do, one batch late.
        """
        layer = self._layer_of.get(key)
        if layer is None:
            return
        if key in layer.squares:
            self._compare(layer)
        flat = weights.reshape(-1).astype(np.float64, copy=False)
        layer.squares[key] = float(np.dot(flat, flat))
        if len(layer.squares) == len(layer.keys):
            self._compare(layer)

    def step(self, parameters: Mapping[str, Floats]) -> None:
        """`observe` for every key of a dictionary, after one batch."""
        for key, weights in parameters.items():
            self.observe(key, weights)

    def _compare(self, layer: Layer) -> None:
        norm, before = math.sqrt(sum(layer.squares.values())), layer.norm
        layer.squares.clear()
        layer.norm = norm
        if before is None:
            return
        change = (norm - before) / before if before else math.inf if norm else 0.0
        if change < self.threshold:
            layer.counter += 1
        if layer.counter == self.interval:
            layer.bits = min(MOST_BITS, layer.bits + self.increment)
            layer.counter = 0

    def bits(self, key: str) -> int:
        """The present format of a key in bits; 32 for one that is in no layer."""
        layer = self._layer_of.get(key)
        return MOST_BITS if layer is None else layer.bits

    def round_to(self, key: str) -> int:
        """The present format in bytes (Sec. III-A: the least number that holds the bits)."""
        return round_to_of(self.bits(key))

    def groups(self, keys: Iterable[str]) -> list[tuple[str, ...]]:
        """Every key once: those of a layer together, at the place of the first; others alone."""
        together: dict[str, list[str]] = {}
        for key in keys:
            layer = self._layer_of.get(key)
            together.setdefault(key if layer is None else layer.keys[0], []).append(key)
        return [tuple(group) for group in together.values()]

    def state_dict(self) -> dict[str, Any]:
        """By layer its bits, counter, last norm and the sums of squares so far, for a checkpoint."""
        return {
            name: {
                "bits": layer.bits,
                "counter": layer.counter,
                "norm": layer.norm,
                "squares": dict(layer.squares),
            }
            for name, layer in self.layers.items()
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores a `state_dict` of an AWP with the same layers; ``ValueError`` that names the field."""
        fields, found = Fields(state, self.layers), {}
        for name, layer in self.layers.items():
            own = fields.within(name, ("bits", "counter", "norm", "squares"))
            bits, counter = own.integer("bits", 1, MOST_BITS), own.integer("counter", 0, self.interval)
            norm = None if own["norm"] is None else own.number("norm")
            keys = own["squares"] if isinstance(own["squares"], Mapping) else ()
            squares = own.within("squares", [key for key in layer.keys if key in keys])
            found[name] = Layer(layer.keys, bits, counter, norm, {key: squares.number(key) for key in keys})
        for name, layer in found.items():
            vars(self.layers[name]).update(vars(layer))


class Oracle:
    """One format for the whole training; the paper's *oracle* runs find it by trying all.

    ``round_to``: bytes of all keys, or by key; keys that are named nowhere are sent whole. It has the methods
    of `AWP`. ``ValueError`` for anything but 1..4, ``TypeError`` if it is not an integer.
    """

    def __init__(self, round_to: int | Mapping[str, int]) -> None:
        self._round_to: int | dict[str, int]
        if isinstance(round_to, Mapping):
            self._round_to = {key: check_round_to(value) for key, value in round_to.items()}
        else:
            self._round_to = check_round_to(round_to)
        self.name = f"oracle {self._round_to!r}"

    def observe(self, key: str, weights: Floats) -> None:
        """Nothing: the format is fixed."""

    def step(self, parameters: Mapping[str, Floats]) -> None:
        """Nothing: the format is fixed."""

    def bits(self, key: str) -> int:
        """The format of a key in bits."""
        return 8 * self.round_to(key)

    def round_to(self, key: str) -> int:
        """The format of a key in bytes."""
        return self._round_to if isinstance(self._round_to, int) else self._round_to.get(key, 4)

    def groups(self, keys: Iterable[str]) -> list[tuple[str, ...]]:
        """Each key alone."""
        return [(key,) for key in keys]

    def state_dict(self) -> None:
        """Nothing: the format is fixed."""

    def load_state_dict(self, state: None) -> None:
        """Nothing: the format is fixed; ``ValueError`` for a state."""
        if state is not None:
            raise ValueError(f"{self.name} keeps no state")


def weight_keys(parameters: Mapping[str, Floats]) -> tuple[str, ...]:
    """The keys of weights: arrays of two dimensions or more. Biases are sent whole (Sec. III)."""
    return tuple(key for key, value in parameters.items() if value.ndim >= 2)


def residual_blocks(parameters: Mapping[str, Floats], depth: int = 2) -> dict[str, tuple[str, ...]]:
    """Layers for `AWP`: weights whose keys agree in their first ``depth`` dotted words share a format.

    For ``layer1.0.conv1.weight``, as in torchvision's ResNets, these are the building blocks that the paper
    adapts in Sec. IV-B. Keys of fewer words are layers of their own.
    """
    groups: dict[str, list[str]] = {}
    for key in weight_keys(parameters):
        words = key.split(".")
        groups.setdefault(key if len(words) <= depth else ".".join(words[:depth]), []).append(key)
    return {name: tuple(keys) for name, keys in groups.items()}
