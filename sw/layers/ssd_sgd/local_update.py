# SPDX-License-Identifier: BSD-2-Clause
"""What a worker does to its own weights between two pulls: SGD, DC-ASGD-a, or GLU (Sec. 3.2, Fig. 5).

The paper writes its updates (equations 1, 5, 6 and 8) as ``w + lr * gradient``, which would climb; the
momentum in Sec. 3.2.1 has the sign of a descent, and so has everything here.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping

import numpy as np

from inceptionn.training import Floats, Parameters, copy_of

GLU_FACTOR, SGD_FACTOR, DC_ASGD_FACTOR = 4.0, 0.25, 1.0
"""Local learning rates over the global one: 1.6, 0.1 and 0.4 where that was 0.4 (Sec. 4.1 and 4.4)."""


class LocalUpdate(ABC):
    """Changes one worker's weights in place; one instance per worker, for one run.

    ``factor``: the local learning rate over the global one. ``ValueError`` unless above 0.
    """

    name: str

    def __init__(self, factor: float) -> None:
        if not (factor > 0 and math.isfinite(factor)):
            raise ValueError(f"factor must be above 0, not {factor!r}")
        self.factor = factor

    def start(self, weights: Parameters, delay: int) -> None:
        """The weights at the end of the warm-up, and the delay k; called once, before `update`."""
        return

    @abstractmethod
    def update(
        self, weights: Parameters, gradients: Mapping[str, Floats], computed_at: Parameters, rate: float
    ) -> None:
        """One local update of ``weights``: w' or, behind a pull, what was pulled.

        ``computed_at``: the weights that the gradients belong to (the same object where nothing was pulled
        since). ``rate``: the global learning rate of this step.
        """


class LocalSGD(LocalUpdate):
    """Equation 5: ``w' - lr_loc * grad'``. O(n)."""

    name = "sgd"

    def __init__(self, factor: float = SGD_FACTOR) -> None:
        super().__init__(factor)

    def update(
        self, weights: Parameters, gradients: Mapping[str, Floats], computed_at: Parameters, rate: float
    ) -> None:
        for key, own in weights.items():
            own -= np.float32(self.factor * rate) * gradients[key]


class DCASGDa(LocalUpdate):
    """Delay-compensated ASGD, adaptive (Zheng et al., ICML 2017), at the worker.

    ``w - lr_loc * (g + lambda_t * g * g * (w - w_bak))`` with ``lambda_t = lambda_0 / sqrt(MeanSquare_t +
    eps)`` and ``MeanSquare_t = m * MeanSquare_(t-1) + (1 - m) * g * g``, all by element. O(n), with a square
    root.

    There, ``w_bak`` are the weights that the gradient was computed with, and ``w`` those that have been
    updated by others since. SSD-SGD does not say what they are at a worker. Here they keep their meaning:
    they differ in the update behind a pull, and elsewhere the compensation is zero.
    """

    name = "dc-asgd-a"

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
        for key, own in weights.items():
            gradient = gradients[key]
            square = gradient * gradient
            mean = self._squares.get(key)
            if mean is None:
                mean = self._squares[key] = np.zeros_like(own)
            mean *= np.float32(self.mean_square)
            mean += np.float32(1 - self.mean_square) * square
            if computed_at is not weights:
                factor = np.float32(self.lambda_0) / np.sqrt(mean + np.float32(self.epsilon))
                square *= factor
                square *= own - computed_at[key]
                own -= np.float32(self.factor * rate) * (gradient + square)
            else:
                own -= np.float32(self.factor * rate) * gradient


class GLU(LocalUpdate):
    """Global gradient for local update: equation 8 and Algorithm 2. O(n), without a square root.

    ``w' - lr_loc * (alpha * grad' + wd * w' + beta * grad_sync)``, where
    ``grad_sync = (pre_weight - w') * (1 - m) / (lr * k)`` (Sec. 3.3) is the gradient that would have moved
    the servers' momentum SGD from ``pre_weight`` to w' in k equal steps.

    To the letter of Algorithm 2: grad_sync is worked out anew in each update, and ``pre_weight`` is
    overwritten *behind* it in every k-th one, where w' is what was just pulled. Thus the first update of a
    cycle sees the k global steps that the formula means. In the others, ``pre_weight`` is that pull and w'
    has moved away from it by local updates only, fewer than k; the paper divides by k all the same.
    ``held=True`` keeps the first one's grad_sync for the whole cycle, the other reading of "global
    gradient". At the first update of all, ``pre_weight`` is w' and grad_sync is zero.

    Parameters
    ----------
    momentum, weight_decay
        m and wd: the servers'.
    alpha, beta
        Shares of the local and the global gradient.
    held
        See above.

    ``ValueError`` for a momentum outside 0..1, or coefficients that are not finite.
    """

    name = "glu"

    def __init__(
        self,
        momentum: float = 0.9,
        weight_decay: float = 0.0,
        alpha: float = 2.0,
        beta: float = 0.5,
        factor: float = GLU_FACTOR,
        held: bool = False,
    ) -> None:
        super().__init__(factor)
        if not 0 <= momentum < 1:
            raise ValueError(f"momentum must be within 0 and 1, 1 excluded, not {momentum!r}")
        for name, value in (("weight_decay", weight_decay), ("alpha", alpha), ("beta", beta)):
            if not math.isfinite(value):
                raise ValueError(f"{name} must be finite, not {value!r}")
        self.momentum, self.weight_decay = momentum, weight_decay
        self.alpha, self.beta, self.held = alpha, beta, held
        self.updates = 0
        """Algorithm 2's ``loc_update``."""
        self._delay = 1
        self._previous: Parameters = {}
        self._sync: Parameters = {}

    def start(self, weights: Parameters, delay: int) -> None:
        self._delay = delay
        self._previous = copy_of(weights)

    def grad_sync(self, key: str, weights: Floats, rate: float) -> Floats:
        """Sec. 3.3's estimate of the global gradient of a key, float32 of its shape.

        Zero at a rate of 0, where servers stand still and there is nothing to divide by.
        """
        estimate: Floats = self._previous[key] - weights
        if not rate:
            estimate[...] = 0
            return estimate
        estimate *= np.float32((1 - self.momentum) / (rate * self._delay))
        return estimate

    def update(
        self, weights: Parameters, gradients: Mapping[str, Floats], computed_at: Parameters, rate: float
    ) -> None:
        first = self.updates % self._delay == 0
        for key, own in weights.items():
            if self.held and not first:
                change = self._sync[key].copy()
            else:
                change = self.grad_sync(key, own, rate)
                if self.held:
                    self._sync[key] = change.copy()
            if first and self.updates:
                np.copyto(self._previous[key], own)
            change *= np.float32(self.beta)
            change += np.float32(self.alpha) * gradients[key]
            if self.weight_decay:
                change += np.float32(self.weight_decay) * own
            change *= np.float32(self.factor * rate)
            own -= change
        self.updates += 1


LOCAL_UPDATES = {"glu": GLU, "sgd": LocalSGD, "dc-asgd-a": DCASGDa}
"""The choices of Fig. 5, by name."""
