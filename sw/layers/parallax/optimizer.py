# SPDX-License-Identifier: BSD-2-Clause
"""Updates of whole variables and of some of their rows."""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np

from inceptionn.layers.parallax.row_sets import Rows
from inceptionn.layers.parameter_server.optimizer import Schedule, schedule_of
from inceptionn.training import Floats


class Optimizer(Protocol):
    """Where gradients become updates."""

    def update(self, key: str, values: Floats, gradient: Floats, step: int, rows: Rows | None = None) -> None:
        """Changes ``values`` (or ``values[rows]``) in place by a gradient of the same shape.

        Called once per step and key; ``rows`` are distinct.
        """


class MomentumSGD:
    """SGD with momentum and weight decay; of rows, only those that have a gradient are touched.

    ``mom = m * mom - lr_t * (grad + wd * w)``, ``w = w + mom``, with ``mom`` 0 at first. A row's momentum
    and decay rest in steps that do not look it up, as in TensorFlow's sparse updates: the work is that of the
    rows used, and the result is not that of the same gradient made dense unless momentum and decay are 0.

    Parameters
    ----------
    rate
        The learning rate lr, or a schedule of it by step (`inceptionn.layers.parameter_server`).
    momentum, weight_decay
        m, 0 <= m < 1; wd, at least 0.

    ``ValueError`` for values outside.
    """

    def __init__(
        self, rate: float | Schedule = 0.05, momentum: float = 0.0, weight_decay: float = 0.0
    ) -> None:
        self.schedule = schedule_of(rate)
        if not 0 <= momentum < 1:
            raise ValueError(f"momentum must be within 0 and 1, 1 excluded, not {momentum!r}")
        if not 0 <= weight_decay < math.inf:
            raise ValueError(f"weight_decay must be at least 0, not {weight_decay!r}")
        self.momentum, self.weight_decay = momentum, weight_decay
        self._momenta: dict[str, Floats] = {}

    def update(self, key: str, values: Floats, gradient: Floats, step: int, rows: Rows | None = None) -> None:
        """See `Optimizer.update`; O(elements of the gradient)."""
        where = slice(None) if rows is None else rows
        change = np.float32(-self.schedule(step)) * gradient
        if self.weight_decay:
            change -= np.float32(self.schedule(step) * self.weight_decay) * values[where]
        if self.momentum:
            kept = self._momenta.setdefault(key, np.zeros_like(values))
            change += np.float32(self.momentum) * kept[where]
            kept[where] = change
        values[where] += change

    def __repr__(self) -> str:
        return f"MomentumSGD({self.schedule!r}, momentum {self.momentum}, weight decay {self.weight_decay})"
