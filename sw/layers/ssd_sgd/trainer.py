# SPDX-License-Identifier: BSD-2-Clause
"""SSD-SGD at a worker: Algorithm 1 on a parameter server's worker. The servers are those of SSGD."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TypeVar

import numpy as np

from inceptionn.layers.parameter_server import Handle, Schedule, Worker
from inceptionn.layers.parameter_server.optimizer import schedule_of
from inceptionn.layers.ssd_sgd.local_update import GLU, LocalUpdate
from inceptionn.training import Floats, Parameters, copy_of

Result = TypeVar("Result")

WARM_UP = 500
"""Iterations of SSGD at the beginning, as in the paper's experiments (Sec. 4.2)."""


class SSDSGD:
    """Several steps delay SGD: a push in every iteration, a pull in every k-th one.

    ::

        ssd = SSDSGD(group.worker, k=4, rate=0.05)
        weights = ssd.weights
        for step in range(steps):
            weights = ssd.step(model.gradients(weights, batches.at(step)))
        weights = ssd.finish()

    After the warm-up (SSGD: a push, then a pull that is waited for), each iteration pushes its gradient
    without waiting and updates the worker's own weights. In every k-th one a pull is begun too; the next
    iteration's gradient is computed with the worker's own weights meanwhile, and its local update is made on
    what was pulled (Algorithm 1, Fig. 2).

    Algorithm 1 asks that ``(1 + wp) % k`` be 0, for a warm-up of 1 + wp iterations, so that the cycles begin
    behind it. Here cycles are counted from the end of the warm-up, and any length will do.

    A gradient that is not finite, and that the worker leaves out (policy "skip"), counts as zero in the local
    update too: the worker's own weights stay finite.

    Parameters
    ----------
    worker
        Of a parameter server in mode "sync". ``ValueError`` otherwise.
    k
        Delay steps, at least 1. ``ValueError`` otherwise.
    warm_up
        Iterations of SSGD at the beginning.
    rate
        The servers' learning rate: a number, or their schedule.
    update
        The worker's own update; `GLU` by default.

    Attributes: ``weights``, by key, to compute the next gradient with; do not change them. ``pulls``: how
    many were made. ``waited``: seconds spent waiting for pushes and pulls.
    """

    def __init__(
        self,
        worker: Worker,
        k: int,
        warm_up: int = WARM_UP,
        rate: float | Schedule = 0.05,
        update: LocalUpdate | None = None,
    ) -> None:
        if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
            raise ValueError(f"k must be at least 1, not {k!r}")
        if warm_up < 0:
            raise ValueError(f"warm_up must be at least 0, not {warm_up!r}")
        if not worker.synchronous:
            raise ValueError("SSD-SGD needs a parameter server in mode 'sync', not 'async'")
        self.worker, self.k, self.warm_up = worker, int(k), warm_up
        self.update = GLU() if update is None else update
        self.rate: Schedule = schedule_of(rate)
        self.pulls = 0
        self.waited = 0.0
        self._step = worker.step
        self._begin = self._step + warm_up
        self._push: Handle[None] | None = None
        self._pull: Handle[Parameters] | None = None
        self.weights = self._wait(self._ask())
        if not warm_up:
            self._end_warm_up()

    @property
    def delayed(self) -> bool:
        """Whether the warm-up is over."""
        return self._step >= self._begin

    def step(self, gradients: Mapping[str, Floats]) -> Parameters:
        """Takes the gradients of `weights`; returns the weights for the next iteration."""
        if self._push is not None:  # one push at a time: a slow network holds the worker up here
            self._wait(self._push)
        skipped = len(self.worker.skipped)
        self._push = self.worker.ipush(gradients)
        if len(self.worker.skipped) > skipped:
            gradients = {key: np.zeros_like(own) for key, own in self.weights.items()}
        if not self.delayed:
            self.weights = self._wait(self._ask())
            self._step += 1
            if self._step == self._begin:
                self._end_warm_up()
            return self.weights
        computed_at = self.weights
        if self._pull is not None:
            self.weights = self._wait(self._pull)
            self._pull = None
        self.update.update(self.weights, gradients, computed_at, self.rate(self._step))
        if (self._step - self._begin) % self.k == self.k - 1:
            self._pull = self._ask()
        self._step += 1
        return self.weights

    def finish(self) -> Parameters:
        """Waits for what is under way, and returns the servers' weights behind the last step."""
        if self._push is not None:
            self._wait(self._push)
        if self._pull is not None:
            self._wait(self._pull)
        self._push = self._pull = None
        return self._wait(self._ask())

    def _end_warm_up(self) -> None:
        self.weights = copy_of(self.weights)
        self.update.start(self.weights, self.k)

    def _ask(self) -> Handle[Parameters]:
        self.pulls += 1
        return self.worker.ipull()

    def _wait(self, handle: Handle[Result]) -> Result:
        start = time.perf_counter()
        result = handle.wait()
        self.waited += time.perf_counter() - start
        return result
