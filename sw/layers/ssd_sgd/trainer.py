# SPDX-License-Identifier: BSD-2-Clause
"""SSD-SGD at a worker of a parameter server (Algorithm 1). The servers are those of SSGD."""

import time
from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np

from ...system.integers import integer
from ...system.warning import warn
from ..fields import Fields, named
from ..parameter_server import Handle, Optimizer, Schedule, Worker
from ..parameter_server.optimizer import schedule_of
from ..parameters import Floats, Parameters, copy_of
from .local_update import GLU, LocalUpdate

Result = TypeVar("Result")

WARM_UP = 500
"""Iterations of SSGD at the beginning, as in the paper's experiments (Sec. 4.2)."""


class SSDSGD:
    """Several steps delay SGD: a push in every iteration, and a pull in every k-th one.

    ::

        ssd = SSDSGD(group.worker, k=4)
        weights = ssd.weights
        for step in range(steps):
            weights = ssd.step(model.gradients(weights, batches.at(step)))
        weights = ssd.finish()

    The warm-up is SSGD: each iteration pushes, pulls and waits. After it, each iteration pushes its gradient
    without waiting, and updates the worker's own weights. Every k-th iteration also begins a pull. Meanwhile
    the next iteration computes its gradient with the worker's own weights; its local update starts from the
    pulled ones (Algorithm 1, Fig. 2).

    Algorithm 1 requires ``(1 + wp) % k == 0`` for a warm-up of 1 + wp iterations, so that the cycles begin
    after it. Here cycles are counted from the end of the warm-up, so it may have any length.

    If the worker leaves out a gradient that is not finite (policy "skip"), it counts as zero in the local
    update too. The worker's own weights thus stay finite.

    If the parameter server writes checkpoints, this writes its own next to them, at the same steps. A
    restored run has the same bits as an uninterrupted one, in the warm-up or after it. If a checkpoint holds
    only the servers' state, training begins with the warm-up, with a ``RuntimeWarning``.

    Parameters
    ----------
    worker
        The worker of a parameter server in mode "sync". ``ValueError`` otherwise.
    k
        Delay steps, at least 1. ``ValueError`` otherwise, ``TypeError`` if it is not an integer.
    warm_up
        Iterations of SSGD at the beginning.
    rate
        The servers' learning rate, as a number or schedule. None takes it from their optimizer. A rate that
        differs from theirs raises ``ValueError``.
    update
        The worker's local update, by default `GLU`. It uses the servers' momentum and weight decay.

    Raises ``ValueError`` if checkpoints are less than k + 2 steps apart, since a worker may be k + 1 steps
    ahead of another and each keeps two checkpoints. Raises ``ValueError`` with the file's name for a
    checkpoint with other settings.

    Attributes: ``weights``, by key, with which to compute the next gradient (do not change them); ``pulls``,
    their number; ``waited``, seconds spent waiting for pushes and pulls.
    """

    def __init__(
        self,
        worker: Worker,
        k: int,
        warm_up: int = WARM_UP,
        rate: float | Schedule | None = None,
        update: LocalUpdate | None = None,
    ) -> None:
        k, warm_up = integer("k", k, 1), integer("warm_up", warm_up, 0)
        if not worker.synchronous:
            raise ValueError("SSD-SGD needs a parameter server in mode 'sync', not 'async'")
        if worker.checkpoints is not None and worker.checkpoints.every < k + 2:
            raise ValueError(
                f"every must be at least k + 2 = {k + 2} steps from checkpoint to checkpoint, "
                f"not {worker.checkpoints.every}"
            )
        self.worker, self.k, self.warm_up = worker, k, warm_up
        self.rate = _rate_of(worker.optimizer, rate)
        self.update = GLU() if update is None else update
        self.update.follow(worker.optimizer)
        self.pulls = 0
        self.waited = 0.0
        self._step = worker.step
        self._begin = self._step + warm_up
        self._push: Handle[None] | None = None
        self._pull: Handle[Parameters] | None = None
        self.weights: Parameters = {}
        if worker.saved is not None:
            with named(str(worker.saved.path)), named("state"):
                self.load_state_dict(worker.saved.state)
            return
        if self._step:
            warn(
                f"the checkpoint of step {self._step} has no state of SSD-SGD: its warm-up begins there",
                RuntimeWarning,
            )
        self.weights = self._wait(self._ask())
        if not warm_up:
            self._end_warm_up()

    @property
    def delayed(self) -> bool:
        """True if the warm-up is over."""
        return self._step >= self._begin

    def step(self, gradients: Mapping[str, Floats]) -> Parameters:
        """Take the gradients at `weights`, float32 by key, and return the weights for the next iteration.

        Raises the errors of `Worker.ipush` and `Handle.wait`.
        """
        self._advance(gradients)
        if self.worker.checkpoints is not None:
            index, count = self.worker.index, self.worker.count
            self.worker.checkpoints.note_worker(index, count, self._step, self.state_dict)
        return self.weights

    def _advance(self, gradients: Mapping[str, Floats]) -> None:
        if self._push is not None:  # one push at a time; a slow network makes the worker wait here
            self._wait(self._push)
        skipped = len(self.worker.skipped)
        self._push = self.worker.ipush(gradients)
        if len(self.worker.skipped) > skipped:
            gradients = {key: np.zeros_like(weights) for key, weights in self.weights.items()}
        if not self.delayed:
            self.weights = self._wait(self._ask())
            self._step += 1
            if self._step == self._begin:
                self._end_warm_up()
            return
        computed_at = self.weights
        if self._pull is not None:
            self.weights = self._wait(self._pull)
            self._pull = None
        self.update.update(self.weights, gradients, computed_at, self.rate(self._step))
        if (self._step - self._begin) % self.k == self.k - 1:
            self._pull = self._ask()
        self._step += 1

    def finish(self) -> Parameters:
        """Wait for pushes and pulls in flight, and return the servers' weights after the last step."""
        if self._push is not None:
            self._wait(self._push)
        if self._pull is not None:
            self._wait(self._pull)
        self._push = self._pull = None
        return self._wait(self._ask())

    def state_dict(self) -> dict[str, Any]:
        """Copy this worker's own state between two steps, for a checkpoint."""
        return {
            "k": self.k,
            "step": self._step,
            "begin": self._begin,
            "pulls": self.pulls,
            "rate": repr(self.rate),
            "update": repr(self.update),
            "kept": self.update.state_dict() if self.delayed else None,
            "weights": copy_of(self.weights),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a `state_dict`. The servers must be at the same step, with nothing pushed since.

        Raises ``ValueError`` naming the field for a state with other settings or wrong content, and changes
        nothing then.
        """
        fields = Fields(state, ("k", "step", "begin", "pulls", "rate", "update", "kept", "weights"))
        stated = {"k": self.k, "step": self.worker.step, "rate": repr(self.rate), "update": repr(self.update)}
        for name, value in stated.items():
            fields.same(name, value)
        step, shapes = self.worker.step, self.worker.shapes
        begin, pulls = fields.integer("begin"), fields.integer("pulls")
        weights = fields.arrays("weights", shapes)
        if step < begin:
            fields.same("kept", None)
        else:
            with fields.naming("kept") as kept:
                self.update.load_state_dict(kept, shapes, self.k)
        self.weights, self._step, self._begin = weights, step, begin
        # The servers' state is older than their answer to this step's pull, if there was one.
        if step <= begin:
            self._wait(self._ask())
        elif (step - begin) % self.k == 0:
            self._pull = self._ask()
        self.pulls = pulls

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


def _rate_of(optimizer: Optimizer, rate: float | Schedule | None) -> Schedule:
    """Return the servers' schedule. Raises ``ValueError`` if another one was given, or there is none."""
    theirs: Schedule | None = getattr(optimizer, "schedule", None)
    if rate is None:
        if theirs is None:
            raise ValueError(f"SSD-SGD needs rate: the servers' {optimizer!r} does not define it")
        return theirs
    schedule = schedule_of(rate)
    if theirs is not None and repr(schedule) != repr(theirs):
        raise ValueError(f"SSD-SGD's rate is {schedule!r}, that of the servers' optimizer {theirs!r}")
    return schedule
