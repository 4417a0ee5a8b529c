# SPDX-License-Identifier: BSD-2-Clause
"""The servers' update rules: momentum SGD with weight decay, and learning rates by step."""

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ..fields import Fields
from ..parameters import Floats
from .plan import Partition


class Schedule(Protocol):
    """A learning rate by step, counted from 0. Equal schedules must have an equal ``repr``."""

    def __call__(self, step: int) -> float:
        """Return the rate of a step."""


def _check_rate(rate: float) -> None:
    if not (rate > 0 and math.isfinite(rate)):
        raise ValueError(f"rate must be above 0, not {rate!r}")


def _check_steps(steps: int) -> None:
    if steps < 1:
        raise ValueError(f"steps must be at least 1, not {steps!r}")


@dataclass(frozen=True)
class Constant:
    """The same rate in every step. Raises ``ValueError`` unless it is above 0."""

    rate: float

    def __post_init__(self) -> None:
        _check_rate(self.rate)

    def __call__(self, step: int) -> float:
        return self.rate


@dataclass(frozen=True)
class StepDecay:
    """``rate``, multiplied by ``factor`` at each of the steps ``at``.

    Raises ``ValueError`` unless rate and factor are above 0.
    """

    rate: float
    at: tuple[int, ...]
    factor: float = 0.1

    def __post_init__(self) -> None:
        _check_rate(self.rate)
        if not (self.factor > 0 and math.isfinite(self.factor)):
            raise ValueError(f"factor must be above 0, not {self.factor!r}")

    def __call__(self, step: int) -> float:
        return self.rate * self.factor ** sum(step >= boundary for boundary in self.at)


@dataclass(frozen=True)
class Cosine:
    """Half a cosine from ``rate`` at step 0 to 0 at step ``steps``, and 0 from there on.

    Raises ``ValueError`` for a rate that is not above 0, or fewer than 1 step.
    """

    rate: float
    steps: int

    def __post_init__(self) -> None:
        _check_rate(self.rate)
        _check_steps(self.steps)

    def __call__(self, step: int) -> float:
        return self.rate * (1 + math.cos(math.pi * min(step, self.steps) / self.steps)) / 2


@dataclass(frozen=True)
class WarmUp:
    """Rises linearly over the first ``steps`` steps to the rate of ``then`` (Goyal et al., 2017).

    Raises ``ValueError`` for fewer than 1 step.
    """

    then: Schedule
    steps: int

    def __post_init__(self) -> None:
        _check_steps(self.steps)

    def __call__(self, step: int) -> float:
        return self.then(step) * min(1.0, (step + 1) / self.steps)


def schedule_of(rate: float | Schedule) -> Schedule:
    """Make a `Constant` from a number, and return a schedule unchanged.

    Raises ``ValueError`` for a number that is not above 0, and ``TypeError`` for anything else.
    """
    if isinstance(rate, int | float | np.floating | np.integer):
        return Constant(float(rate))
    if not callable(rate):
        raise TypeError(f"rate must be a number or a schedule, not {rate!r}")
    return rate


class Optimizer(ABC):
    """Updates a server's partitions by their mean gradients. Each server has one instance.

    ``repr`` shows the settings that must be equal at all servers.
    """

    @abstractmethod
    def update(
        self,
        partition: Partition,
        weights: Floats,
        gradient: Floats,
        step: int,
        rows: NDArray[np.int64] | None = None,
    ) -> None:
        """Update ``weights``, float32, in place by a step's gradient of the same shape.

        Called once per partition and step, in the order of a partition's steps. With sparse gradients
        (Parallax), ``rows`` are the distinct rows of ``weights`` that the gradient has. Only these change.
        """

    def state_dict(self) -> dict[str, Floats]:
        """Copy the state from earlier steps, by a name for each array, for a checkpoint."""
        return {}

    def partition_state(self, partition: Partition) -> dict[str, Floats]:
        """Return the part of `state_dict` that belongs to one partition.

        Before its first update, it is the initial state. A new optimizer thus tells which arrays, shapes and
        types a checkpoint must have.
        """
        return {}

    def load_state_dict(self, state: Mapping[str, Floats]) -> None:
        """Restore copies of the arrays of a `state_dict`. Raise ``ValueError`` for another optimizer's."""
        if state:
            raise ValueError(f"{self!r} keeps no state, the checkpoint has {sorted(state)}")


class MomentumSGD(Optimizer):
    """Stochastic gradient descent with heavy-ball momentum and weight decay, as in SSD-SGD, Sec. 3.2.1.

    ``mom_t = m * mom_(t-1) - lr_t * (grad_t + wd * w_t)``, ``w_(t+1) = w_t + mom_t``; ``mom_(-1) = 0``. The
    paper's index of the weights differs: ``w_(t-1) = w_(t-2) + mom_(t-2)``. All computations are in float32.

    A sparse gradient changes only its rows; momentum and decay act on no others, as in TensorFlow's sparse
    updates. The work is proportional to these rows. Unless momentum and decay are 0, the result differs from
    that of the same gradient made dense.

    Parameters
    ----------
    rate
        The learning rate lr, or a `Schedule` of it.
    momentum
        m, 0 <= m < 1.
    weight_decay
        wd, at least 0.

    Raises ``ValueError`` for values outside these limits.
    """

    def __init__(
        self, rate: float | Schedule = 0.05, momentum: float = 0.9, weight_decay: float = 0.0
    ) -> None:
        self.schedule = schedule_of(rate)
        if not 0 <= momentum < 1:
            raise ValueError(f"momentum must be within 0 and 1, 1 excluded, not {momentum!r}")
        if not 0 <= weight_decay < math.inf:
            raise ValueError(f"weight_decay must be at least 0, not {weight_decay!r}")
        self.momentum, self.weight_decay = momentum, weight_decay
        self._momenta: dict[int, Floats] = {}

    def update(
        self,
        partition: Partition,
        weights: Floats,
        gradient: Floats,
        step: int,
        rows: NDArray[np.int64] | None = None,
    ) -> None:
        if self.weight_decay:
            gradient += np.float32(self.weight_decay) * (weights if rows is None else weights[rows])
        gradient *= np.float32(self.schedule(step))
        if self.momentum:
            kept = self._momenta.get(partition.number)
            if kept is None:
                kept = self._momenta[partition.number] = np.zeros_like(weights)
            change = kept if rows is None else kept[rows]
            change *= np.float32(self.momentum)
            change -= gradient
            if rows is not None:
                kept[rows] = change
        else:
            change = np.negative(gradient, out=gradient)
        if rows is None:
            weights += change
        else:
            weights[rows] += change

    def state_dict(self) -> dict[str, Floats]:
        return {f"momentum{number}": kept.copy() for number, kept in self._momenta.items()}

    def partition_state(self, partition: Partition) -> dict[str, Floats]:
        if not self.momentum:
            return {}
        kept = self._momenta.get(partition.number)
        zero = np.zeros(partition.size, np.float32)
        return {f"momentum{partition.number}": zero if kept is None else kept.copy()}

    def load_state_dict(self, state: Mapping[str, Floats]) -> None:
        if not all(re.fullmatch(r"momentum\d+", name) for name in state):
            raise ValueError(f"{self!r} keeps momenta, the checkpoint has {sorted(state)}")
        self._momenta = {
            int(name.removeprefix("momentum")): np.array(kept, np.float32) for name, kept in state.items()
        }

    def __repr__(self) -> str:
        return f"MomentumSGD({self.schedule!r}, momentum {self.momentum}, weight decay {self.weight_decay})"


def state_in(
    fields: Fields, name: str, optimizer: Optimizer, partitions: Iterable[Partition]
) -> dict[str, Floats]:
    """Read the optimizer's state of these partitions from the field.

    Raises the ``ValueError`` of `Fields`.
    """
    expected: dict[str, Floats] = {}
    for partition in partitions:
        expected |= optimizer.partition_state(partition)
    inner = fields.within(name, expected)
    return {key: inner.array(key, like.shape, like.dtype) for key, like in expected.items()}
