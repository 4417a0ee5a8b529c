# SPDX-License-Identifier: BSD-2-Clause
"""A worker's updates of its own weights between two pulls: SGD, DC-ASGD-a, or GLU (Sec. 3.2, Fig. 5).

The paper writes its updates (equations 1, 5, 6 and 8) as ``w + lr * gradient``, which is an ascent. Its
momentum in Sec. 3.2.1 has the sign of a descent, which is used everywhere here.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..fields import Fields
from ..parameter_server import Optimizer
from ..parameters import Floats, Parameters, copy_of

GLU_FACTOR, SGD_FACTOR, DC_ASGD_FACTOR = 4.0, 0.25, 1.0
"""Ratios of the local learning rate to the global one: 1.6, 0.1 and 0.4 to 0.4 (Sec. 4.1 and 4.4)."""

Shapes = Mapping[str, tuple[int, ...]]


class LocalUpdate(ABC):
    """Updates one worker's weights in place. An instance serves one worker for one run.

    ``factor`` is the ratio of the local learning rate to the global one. Raises ``ValueError`` unless it is
    above 0.
    """

    name: str
    settings: tuple[str, ...] = ("factor",)

    def __init__(self, factor: float) -> None:
        if not (factor > 0 and math.isfinite(factor)):
            raise ValueError(f"factor must be above 0, not {factor!r}")
        self.factor = factor

    def follow(self, optimizer: Optimizer) -> None:
        """Take the settings that it needs from the servers' optimizer. Called once, before `start`.

        Raises ``ValueError`` if its own settings contradict them.
        """
        return

    def start(self, weights: Parameters, delay: int) -> None:
        """Receive the weights at the end of the warm-up, and the delay k. Called once, before `update`."""
        return

    @abstractmethod
    def update(
        self, weights: Parameters, gradients: Mapping[str, Floats], computed_at: Parameters, rate: float
    ) -> None:
        """Update ``weights`` once. They are w', or after a pull the pulled weights.

        ``computed_at`` are the weights with which the gradients were computed (the same object if there was
        no pull since). ``rate`` is the global learning rate of this step.
        """

    def state_dict(self) -> dict[str, Any]:
        """Copy the state that earlier updates have left, for a checkpoint."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any], shapes: Shapes, delay: int) -> None:
        """Restore a `state_dict` instead of calling `start`.

        ``shapes`` are those of the weights, ``delay`` is k. Raises ``ValueError`` naming the wrong field, and
        changes nothing then.
        """
        Fields(state, ())

    def __repr__(self) -> str:
        """Show the settings. Equal settings give equal texts."""
        return f"{type(self).__name__}({', '.join(f'{name}={vars(self)[name]!r}' for name in self.settings)})"


class LocalSGD(LocalUpdate):
    """Equation 5: ``w' - lr_loc * grad'``. O(n)."""

    name = "sgd"

    def __init__(self, factor: float = SGD_FACTOR) -> None:
        super().__init__(factor)

    def update(
        self, weights: Parameters, gradients: Mapping[str, Floats], computed_at: Parameters, rate: float
    ) -> None:
        for key, local in weights.items():
            local -= np.float32(self.factor * rate) * gradients[key]


class DCASGDa(LocalUpdate):
    """Delay-compensated ASGD, adaptive (Zheng et al., ICML 2017), at the worker.

    ``w - lr_loc * (g + lambda_t * g * g * (w - w_bak))`` with ``lambda_t = lambda_0 / sqrt(MeanSquare_t +
    eps)`` and ``MeanSquare_t = m * MeanSquare_(t-1) + (1 - m) * g * g``, all by element. O(n), with a square
    root.

    In DC-ASGD, ``w_bak`` are the weights with which the gradient was computed, and ``w`` the weights after
    the others' updates since then. SSD-SGD does not say what they are at a worker. Here they keep that
    meaning, so they differ only in the update after a pull. In all other updates the compensation is zero.
    """

    name = "dc-asgd-a"
    settings = ("factor", "lambda_0", "mean_square", "epsilon")

    def __init__(
        self,
        factor: float = DC_ASGD_FACTOR,
        lambda_0: float = 2.0,
        mean_square: float = 0.95,
        epsilon: float = 1e-7,
    ) -> None:
        super().__init__(factor)
        if not 0 <= mean_square < 1:
            raise ValueError(f"mean_square must be within 0 and 1, 1 excluded, not {mean_square!r}")
        self.lambda_0, self.mean_square, self.epsilon = lambda_0, mean_square, epsilon
        self._squares: Parameters = {}

    def update(
        self, weights: Parameters, gradients: Mapping[str, Floats], computed_at: Parameters, rate: float
    ) -> None:
        for key, local in weights.items():
            gradient = gradients[key]
            square = gradient * gradient
            mean = self._squares.get(key)
            if mean is None:
                mean = self._squares[key] = np.zeros_like(local)
            mean *= np.float32(self.mean_square)
            mean += np.float32(1 - self.mean_square) * square
            if computed_at is not weights:
                factor = np.float32(self.lambda_0) / np.sqrt(mean + np.float32(self.epsilon))
                square *= factor
                square *= local - computed_at[key]
                local -= np.float32(self.factor * rate) * (gradient + square)
            else:
                local -= np.float32(self.factor * rate) * gradient

    def state_dict(self) -> dict[str, Any]:
        return {"squares": copy_of(self._squares)}

    def load_state_dict(self, state: Mapping[str, Any], shapes: Shapes, delay: int) -> None:
        fields = Fields(state, ("squares",))
        self._squares = fields.arrays("squares", shapes if fields["squares"] != {} else {})


class GLU(LocalUpdate):
    """Global gradient for local update: equation 8 and Algorithm 2. O(n), without a square root.

    ``w' - lr_loc * (alpha * grad' + wd * w' + beta * grad_sync)``, where
    ``grad_sync = (pre_weight - w') * (1 - m) / (lr * k)`` (Sec. 3.3) is the gradient that would have moved
    the servers' momentum SGD from ``pre_weight`` to w' in k equal steps.

    This follows Algorithm 2 literally. Each update computes grad_sync again. Every k-th update *then* sets
    ``pre_weight`` to w', which are the weights just pulled. So the first update of a cycle sees the k global
    steps that the formula assumes. In the other updates, w' differs from ``pre_weight`` by fewer than k local
    updates, but the paper still divides by k. ``held=True`` is the other reading of "global gradient": it
    keeps the first grad_sync for the whole cycle. In the very first update, ``pre_weight`` is w' and
    grad_sync is zero.

    Parameters
    ----------
    momentum, weight_decay
        m and wd, as at the servers. None takes them from the servers' optimizer.
    alpha, beta
        Weights of the local and the global gradient.
    held
        Whether a cycle keeps its first grad_sync (see above).

    Raises ``ValueError`` for a momentum outside 0..1, or coefficients that are not finite.
    """

    name = "glu"
    settings = ("momentum", "weight_decay", "alpha", "beta", "factor", "held")

    def __init__(
        self,
        momentum: float | None = None,
        weight_decay: float | None = None,
        alpha: float = 2.0,
        beta: float = 0.5,
        factor: float = GLU_FACTOR,
        held: bool = False,
    ) -> None:
        super().__init__(factor)
        if momentum is not None and not 0 <= momentum < 1:
            raise ValueError(f"momentum must be within 0 and 1, 1 excluded, not {momentum!r}")
        for name, value in (("weight_decay", weight_decay), ("alpha", alpha), ("beta", beta)):
            if value is not None and not math.isfinite(value):
                raise ValueError(f"{name} must be finite, not {value!r}")
        self.momentum, self.weight_decay = momentum, weight_decay
        self.alpha, self.beta, self.held = alpha, beta, held
        self.updates = 0
        """Algorithm 2's ``loc_update``."""
        self._delay = 1
        self._previous: Parameters = {}
        self._sync: Parameters = {}

    def follow(self, optimizer: Optimizer) -> None:
        for name in ("momentum", "weight_decay"):
            given, theirs = getattr(self, name), getattr(optimizer, name, None)
            if given is None and theirs is None:
                raise ValueError(f"GLU needs {name}: the servers' {optimizer!r} does not define it")
            if None not in (given, theirs) and given != theirs:
                raise ValueError(f"GLU's {name} is {given!r}, that of the servers' optimizer {theirs!r}")
            setattr(self, name, theirs if given is None else given)

    def start(self, weights: Parameters, delay: int) -> None:
        if self.momentum is None or self.weight_decay is None:
            raise ValueError("GLU needs the servers' momentum and weight_decay: give both, or call follow()")
        self._delay = delay
        self._previous = copy_of(weights)

    def grad_sync(self, key: str, weights: Floats, rate: float) -> Floats:
        """Estimate a key's global gradient by Sec. 3.3, float32 of the key's shape.

        It is zero at a rate of 0, since the servers' weights do not change then.
        """
        estimate: Floats = self._previous[key] - weights
        if not rate:
            estimate[...] = 0
            return estimate
        assert self.momentum is not None
        estimate *= np.float32((1 - self.momentum) / (rate * self._delay))
        return estimate

    def update(
        self, weights: Parameters, gradients: Mapping[str, Floats], computed_at: Parameters, rate: float
    ) -> None:
        first = self.updates % self._delay == 0
        for key, local in weights.items():
            if self.held and not first:
                change = self._sync[key].copy()
            else:
                change = self.grad_sync(key, local, rate)
                if self.held:
                    self._sync[key] = change.copy()
            if first and self.updates:
                np.copyto(self._previous[key], local)
            change *= np.float32(self.beta)
            change += np.float32(self.alpha) * gradients[key]
            if self.weight_decay:
                change += np.float32(self.weight_decay) * local
            change *= np.float32(self.factor * rate)
            local -= change
        self.updates += 1

    def state_dict(self) -> dict[str, Any]:
        return {"updates": self.updates, "previous": copy_of(self._previous), "sync": copy_of(self._sync)}

    def load_state_dict(self, state: Mapping[str, Any], shapes: Shapes, delay: int) -> None:
        fields = Fields(state, ("updates", "previous", "sync"))
        updates, previous = fields.integer("updates"), fields.arrays("previous", shapes)
        self._sync = fields.arrays("sync", shapes if self.held and updates else {})
        self.updates, self._delay, self._previous = updates, delay, previous


LOCAL_UPDATES = {"glu": GLU, "sgd": LocalSGD, "dc-asgd-a": DCASGDa}
"""The alternatives of Fig. 5, by name."""
