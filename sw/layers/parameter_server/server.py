# SPDX-License-Identifier: BSD-2-Clause
"""A server's state: the weights of its partitions, and their updates by pushed gradients.

`node` handles the messages.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from ..parameters import Floats
from .optimizer import Optimizer
from .plan import Partition, Plan

Mode = Literal["sync", "async"]
"""In "sync", an update takes the mean of all workers' gradients of a step. In "async", it takes each gradient
as it arrives.
"""
Updated = Callable[[Partition, int], None]


class ServerError(Exception):
    """An error of a server's own optimizer, encoding or checkpoints. The text names which."""


@contextmanager
def fault_of(part: str) -> Iterator[None]:
    """Raise `ServerError` for an error in the user's code that this context runs.

    A ``ValueError`` there must not be taken for a malformed message.
    """
    try:
        yield
    except Exception as problem:
        raise ServerError(f"{part}: {type(problem).__name__}: {problem}") from problem


class _Step:
    """The gradients of one partition and step, summed in the order of the workers, whenever they arrive.

    This order makes the sum the same in every run. ``exact``: so does any other then; see `Server`.
    """

    def __init__(self, exact: bool) -> None:
        self._exact = exact
        self.total: Floats | NDArray[np.float64] | None = None
        self.summed = 0
        """Number of workers whose gradient is in the sum, or who skipped the step."""
        self.count = 0
        """Number of gradients in the sum."""
        self.waiting: dict[int, Floats | None] = {}

    def add(self, worker: int, gradient: Floats | None) -> None:
        self.waiting[worker] = gradient
        while self.summed in self.waiting:
            part = self.waiting.pop(self.summed)
            self.summed += 1
            if part is None:
                continue
            self.count += 1
            if self.total is None:
                self.total = part.astype(np.float64) if self._exact else part
            else:
                self.total += part

    def mean(self) -> Floats | None:
        """Return the mean of the gradients, float32; None if there are none."""
        if self.total is None:
            return None
        with np.errstate(over="ignore"):
            mean: Floats = self.total.astype(np.float32, copy=False)
        if self.count > 1:
            mean *= np.float32(1.0 / self.count)
        return mean

    def has(self, worker: int) -> bool:
        return worker < self.summed or worker in self.waiting


class Server:
    """One of the servers of a plan.

    A partition's *version* is the number of its updates. In mode "sync" (SSGD) an update takes the mean of
    all workers' gradients of one step, so the version is the number of the next step. A worker that skips a
    step (`push` of None) does not count in the mean. In mode "async" (ASGD) every gradient is applied at
    once, as an update of its own.

    Parameters
    ----------
    plan, index
        All partitions, and the number of this server.
    parameters
        Initial weights by key, float32, all keys.
    workers
        Number of workers. A server numbers them 0..workers-1.
    optimizer
        This server's own instance.
    updated
        Called with each partition and its new version, directly after the update.
    exact
        Gradients are multiples of a power of two each, so they are added in float64, where their sum is exact
        and the same for every order of the workers: as long as it has at most 2^53 of the smallest step.
    """

    def __init__(
        self,
        plan: Plan,
        index: int,
        parameters: Mapping[str, Floats],
        workers: int,
        optimizer: Optimizer,
        mode: Mode = "sync",
        updated: Updated | None = None,
        exact: bool = False,
    ) -> None:
        if mode not in get_args(Mode):
            raise ValueError(f"mode must be 'sync' or 'async', not {mode!r}")
        self.plan, self.index, self.workers, self.optimizer, self.mode = plan, index, workers, optimizer, mode
        self.partitions = {p.number: p for p in plan.of(index)}
        self.weights: dict[int, Floats] = {
            p.number: np.array(parameters[p.key].reshape(-1)[p.start : p.stop], np.float32)
            for p in self.partitions.values()
        }
        """float32[n] by the partition's number."""
        self.versions = dict.fromkeys(self.partitions, 0)
        self.delays: dict[int, int] = {}
        """Number of gradients, by the number of updates since their worker's pull (mode "async")."""
        self.skipped: list[tuple[int, str, int]] = []
        """Worker, key and step of the gradients that were skipped because they were not finite."""
        self._steps: dict[int, dict[int, _Step]] = {number: {} for number in self.partitions}
        self._seen: dict[tuple[int, int], int] = {}
        self._updated = updated or (lambda partition, version: None)
        self._exact = exact

    def push(self, worker: int, number: int, step: int, gradient: Floats | None) -> None:
        """Take a worker's gradient of a partition, float32[n]. The server may change the array from then on.

        ``step`` counts the worker's pushes of that partition from 0. A ``gradient`` of None skips the step.
        Raises ``ValueError`` for a partition of another server, another length, or (mode "sync") a step that
        is not the worker's next.
        """
        partition = self.partitions.get(number)
        if partition is None:
            raise ValueError(f"partition {number} is not with server {self.index}")
        if gradient is None:
            self.skipped.append((worker, partition.key, step))
        elif gradient.size != partition.size:
            raise ValueError(
                f"worker {worker} pushed {gradient.size} values of key {partition.key!r}, "
                f"its partition {number} has {partition.size}"
            )
        if self.mode == "async":
            if gradient is not None:
                delay = self.versions[number] - self._seen.get((worker, number), 0)
                self.delays[delay] = self.delays.get(delay, 0) + 1
                self._update(partition, gradient)
            return
        steps = self._steps[number]
        if step != (due := self.pushed(worker, number)):
            raise ValueError(
                f"worker {worker} has pushed step {step} of key {partition.key!r} before"
                if step < due
                else f"worker {worker} pushed step {step} of key {partition.key!r}, its next is {due}"
            )
        steps.setdefault(step, _Step(self._exact)).add(worker, gradient)
        while (full := steps.get(self.versions[number])) is not None and full.summed == self.workers:
            del steps[self.versions[number]]
            mean = full.mean()
            if mean is not None:
                self._update(partition, mean)
            else:
                self._advance(partition)

    def _update(self, partition: Partition, gradient: Floats) -> None:
        number = partition.number
        with fault_of(f"the optimizer's update of key {partition.key!r}"):
            self.optimizer.update(partition, self.weights[number], gradient, self.versions[number])
        self._advance(partition)

    def _advance(self, partition: Partition) -> None:
        self.versions[partition.number] += 1
        self._updated(partition, self.versions[partition.number])

    def pulled(self, worker: int, numbers: Sequence[int]) -> None:
        """Note that a worker gets the current weights of partitions. Its delay counts from here."""
        for number in numbers:
            self._seen[worker, number] = self.versions[number]

    def ready(self, number: int, version: int) -> bool:
        """Tell whether a pull that needs this version of a partition can be answered."""
        return self.mode == "async" or self.versions[number] >= version

    def pushed(self, worker: int, number: int) -> int:
        """Return the number of a worker's pushes of a partition, with those of a restored run (mode "sync").

        O(steps that it is ahead of the version).
        """
        step, steps = self.versions[number], self._steps[number]
        while step in steps and steps[step].has(worker):
            step += 1
        return step

    def missing(self, number: int) -> list[int]:
        """Return the workers that the next update of a partition waits for."""
        due = self._steps[number].get(self.versions[number])
        return [worker for worker in range(self.workers) if due is None or not due.has(worker)]
