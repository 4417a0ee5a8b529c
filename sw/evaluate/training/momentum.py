# SPDX-License-Identifier: BSD-2-Clause
"""Stochastic gradient descent with momentum on one vector."""

import numpy as np

from ...layers.parameters import Floats


class Momentum:
    """Heavy-ball momentum in float32: ``v = momentum * v - rate * gradient``, from ``v = 0``."""

    def __init__(self, rate: float, momentum: float = 0.9) -> None:
        self._rate, self._momentum = np.float32(rate), np.float32(momentum)
        self._velocity: Floats | None = None

    def __call__(self, gradient: Floats) -> Floats:
        """Return ``v``, to be added to the weights, of a mean gradient, float32[n].

        The next call overwrites it. Raises ``ValueError`` for another n than the first one's.
        """
        if self._velocity is None:
            self._velocity = np.zeros_like(gradient)
        self._velocity *= self._momentum
        self._velocity -= self._rate * gradient
        return self._velocity
