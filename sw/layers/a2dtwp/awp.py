# SPDX-License-Identifier: BSD-2-Clause
"""Adaptive Weight Precision: the number of bits of each layer's weights (A2DTWP, Sec. II, Algorithm 1).

The paper leaves some points open:

- Algorithm 1 resets ``IntervalCounter`` only when bits are added, while the text speaks of "a certain number
  of batches". Here, as in the algorithm, batches below the threshold need not be consecutive.
- The algorithm has no upper limit. Here bits stop at 32.
- The first batch is compared with nothing, since it has no earlier norm. If a norm was zero, it counts as
  unchanged if it still is, and as an infinite change otherwise.
- All thresholds of the paper are negative. A layer gets more bits if its norm *shrinks* faster than that,
  which weight decay causes; a layer whose norm only grows never gets more.
- The interval of "a single batch" in Sec. V-A must be an epoch: 4000 batches of 64 are one of ImageNet200.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...system.integers import integer
from ..fields import Fields
from ..parameters import Floats
from .adt import check_round_to, round_to_of

MOST_BITS = 32


@dataclass
class Layer:
    """A layer, or a group of keys that share a format of ``bits`` bits."""

    keys: tuple[str, ...]
    bits: int
    counter: int = 0
    """Batches below the threshold since bits were last added (``IntervalCounter``)."""
    norm: float | None = None
    """\\|W\\| of the previous batch."""
    squares: dict[str, float] = field(default_factory=dict)
    """Sums of squares of the current batch so far, by key."""


class AWP:
    """Chooses the bits per layer from the change of the weights' l2-norms.

    Call `observe` for each key after each batch, or `step` for all keys.

    Parameters
    ----------
    layers
        The keys of each layer, by the layer's name; a sequence makes each of its keys a layer.
        `residual_blocks` makes groups. Keys without a layer (biases) are sent in full.
    threshold
        T, which is compared with the relative change of the norm per batch. Sec. V-A takes it from the
        average change in a short run: -5e-2 for AlexNet, -2e-3 for VGG, -2e-5 for ResNet.
    interval
        INTERVAL, the number of batches below T after which bits are added. The paper has 2000 to 4000, about
        one epoch.
    increment
        N, the number of bits that are added; 8 in the paper, since ADT keeps whole bytes.
    initial
        Initial bits of all layers, 8 in the paper.

    Raises ``ValueError`` for a threshold that is not finite, an interval below 1, an increment or initial
    bits outside 1..32, no layer, or a key in two layers. Raises ``TypeError`` for numbers that are not
    integers.
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
        integer("interval", interval, 1, unit=" batch")
        for name, bits in (("increment", increment), ("initial", initial)):
            integer(name, bits, 1, MOST_BITS, unit=" bits")
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
        """Take a key's weights after a batch, and run lines 6 to 13 when a layer is complete. O(size).

        Pass each key once per batch, in any order. A server that holds only some keys of a layer uses the
        norm of these, one batch late.
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
        """Call `observe` for every key of a dictionary, after one batch."""
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
        """Return the current format of a key in bits; 32 for a key without a layer."""
        layer = self._layer_of.get(key)
        return MOST_BITS if layer is None else layer.bits

    def round_to(self, key: str) -> int:
        """Return the current format in bytes, the smallest number that holds the bits (Sec. III-A)."""
        return round_to_of(self.bits(key))

    def groups(self, keys: Iterable[str]) -> list[tuple[str, ...]]:
        """Group the keys: those of a layer together, at the place of the first, and every other key alone."""
        together: dict[str, list[str]] = {}
        for key in keys:
            layer = self._layer_of.get(key)
            together.setdefault(key if layer is None else layer.keys[0], []).append(key)
        return [tuple(group) for group in together.values()]

    def state_dict(self) -> dict[str, Any]:
        """Copy bits, counter, last norm and sums of squares so far, by layer, for a checkpoint."""
        return {
            name: {
                "bits": layer.bits,
                "counter": layer.counter,
                "norm": layer.norm,
                "squares": dict(layer.squares),
            }
            for name, layer in self.layers.items()
        }

    def load_state_dict(self, state: Any) -> None:
        """Restore a `state_dict` of an AWP with the same layers; ``ValueError`` that names the field."""
        fields, found = Fields(state, self.layers), {}
        for name, layer in self.layers.items():
            kept = fields.within(name, ("bits", "counter", "norm", "squares"))
            bits, counter = kept.integer("bits", 1, MOST_BITS), kept.integer("counter", 0, self.interval)
            norm = None if kept["norm"] is None else kept.number("norm")
            keys = kept["squares"] if isinstance(kept["squares"], Mapping) else ()
            squares = kept.within("squares", [key for key in layer.keys if key in keys])
            found[name] = Layer(layer.keys, bits, counter, norm, {key: squares.number(key) for key in keys})
        for name, layer in found.items():
            vars(self.layers[name]).update(vars(layer))


class Oracle:
    """One format for the whole training; the paper's *oracle* runs find it by trying all.

    ``round_to`` is the number of bytes for all keys, or by key; other keys are sent in full. It has the
    methods of `AWP`. Raises ``ValueError`` for anything but 1..4, and ``TypeError`` if it is not an integer.
    """

    def __init__(self, round_to: int | Mapping[str, int]) -> None:
        self._round_to: int | dict[str, int]
        if isinstance(round_to, Mapping):
            self._round_to = {key: check_round_to(value) for key, value in round_to.items()}
        else:
            self._round_to = check_round_to(round_to)
        self.name = f"oracle {self._round_to!r}"

    def observe(self, key: str, weights: Floats) -> None:
        """Do nothing: the format is fixed."""

    def step(self, parameters: Mapping[str, Floats]) -> None:
        """Do nothing: the format is fixed."""

    def bits(self, key: str) -> int:
        """Return the format of a key in bits."""
        return 8 * self.round_to(key)

    def round_to(self, key: str) -> int:
        """Return the format of a key in bytes."""
        return self._round_to if isinstance(self._round_to, int) else self._round_to.get(key, 4)

    def groups(self, keys: Iterable[str]) -> list[tuple[str, ...]]:
        """Put each key alone."""
        return [(key,) for key in keys]

    def state_dict(self) -> None:
        """Return nothing: the format is fixed."""

    def load_state_dict(self, state: Any) -> None:
        """Do nothing, since the format is fixed. Raise ``ValueError`` for a state."""
        if state is not None:
            raise ValueError(f"{self.name} keeps no state")


def weight_keys(parameters: Mapping[str, Floats]) -> tuple[str, ...]:
    """Return the keys of weights, which have two dimensions or more. Biases are sent in full (Sec. III)."""
    return tuple(key for key, value in parameters.items() if value.ndim >= 2)


def residual_blocks(parameters: Mapping[str, Floats], depth: int = 2) -> dict[str, tuple[str, ...]]:
    """Make layers for `AWP`. Weights whose keys have the same first ``depth`` dotted words share a format.

    With keys such as ``layer1.0.conv1.weight`` (torchvision's ResNets), these are the building blocks of Sec.
    IV-B. Keys with fewer words are layers of their own.
    """
    groups: dict[str, list[str]] = {}
    for key in weight_keys(parameters):
        words = key.split(".")
        groups.setdefault(key if len(words) <= depth else ".".join(words[:depth]), []).append(key)
    return {name: tuple(keys) for name, keys in groups.items()}
