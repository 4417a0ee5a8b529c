# SPDX-License-Identifier: BSD-2-Clause
"""A server's requests: pulls that wait for updates, workers that are done, and time limits."""

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

import numpy as np

from ...transport import RunningClock, TransportError, TransportTimeout, ranks_text
from ..parameters import Floats, Parameters
from .checkpoint import Checkpoints
from .exchange.envelope import Envelope, Kind
from .exchange.legs import Data, Leg
from .optimizer import Optimizer
from .plan import Partition, Plan
from .server import Mode, Server, fault_of

Reply = Callable[[int, Envelope, Data], None]
"""Sends weights to a worker. Arguments: the worker's number, the header, the data."""


@dataclass
class _Pull:
    """A worker's request for partitions, each in one version, and those that are ready."""

    worker: int
    ticket: int
    wanted: dict[int, int]
    since: float
    found: dict[int, tuple[int, Floats]] = field(default_factory=dict)
    """Version and weights of the partitions that are ready, copied at that time."""


class Serving:
    """One server, and the requests of its workers, which are numbered as in `Server`.

    A pull gets exactly the version that it waited for, however far other workers are ahead. So in mode "sync"
    every run gives the same bits.

    ``ranks`` are those of the workers, for messages. A worker may be silent for ``timeout`` seconds while
    others wait for it. ``exact`` is that of `Server`.
    """

    def __init__(
        self,
        plan: Plan,
        index: int,
        parameters: Parameters,
        ranks: Sequence[int],
        optimizer: Optimizer,
        mode: Mode,
        pull_leg: Leg,
        timeout: float,
        checkpoints: Checkpoints | None = None,
        exact: bool = False,
    ) -> None:
        self.server = Server(plan, index, parameters, len(ranks), optimizer, mode, self._updated, exact)
        self.checkpoints = checkpoints
        self.done: set[int] = set()
        """Workers that have sent their last push and pull."""
        self._ranks, self._leg, self._timeout = list(ranks), pull_leg, timeout
        self._pulls: list[_Pull] = []
        self._snapshots: dict[tuple[int, int], Floats] = {}
        self._encoded: tuple[tuple[tuple[int, int], ...], bytes, Data] | None = None
        self.coding = 0.0
        """Seconds spent to encode weights."""
        self._clock = RunningClock()
        self._heard = self._clock.now()

    def take(self, worker: int, envelope: Envelope, gradients: Sequence[Floats | None], reply: Reply) -> None:
        """Handle a worker's message. A push has one of ``gradients`` per partition.

        Raises ``ValueError`` if malformed.
        """
        self._heard = self._clock.now()
        if envelope.kind in (Kind.PUSH, Kind.SKIP):
            for number, step, gradient in zip(envelope.numbers, envelope.steps, gradients, strict=True):
                self.server.push(worker, number, step, gradient)
        elif envelope.kind is Kind.PULL:
            wanted = dict(zip(envelope.numbers, envelope.steps, strict=True))
            pull = _Pull(worker, envelope.ticket, wanted, self._heard)
            for number, version in wanted.items():
                if number not in self.server.partitions:
                    raise ValueError(f"partition {number} is not with server {self.server.index}")
                if self.server.mode == "sync" and version > (most := self.server.pushed(worker, number)):
                    raise ValueError(f"a pull of version {version} after {most} pushes")
                if self.server.ready(number, version):
                    self._note(pull, number)
            self._pulls.append(pull)
        elif envelope.kind is Kind.DONE:
            self.done.add(worker)
        else:
            raise ValueError(f"a worker does not send {envelope.kind.name}")
        self._answer(reply)
        if self.done:
            self._check_deserted()

    def _updated(self, partition: Partition, version: int) -> None:
        for pull in self._pulls:
            wanted = pull.wanted.get(partition.number)
            if wanted is not None and partition.number not in pull.found and version >= wanted:
                self._note(pull, partition.number)
        if self.checkpoints is not None:
            with fault_of("the server's checkpoint"):
                self.checkpoints.note(self.server, partition, version, self._leg)

    def _note(self, pull: _Pull, number: int) -> None:
        version = self.server.versions[number]
        snapshot = self._snapshots.get((number, version))
        if snapshot is None:
            snapshot = self._snapshots[number, version] = self.server.weights[number].copy()
        pull.found[number] = version, snapshot

    def _answer(self, reply: Reply) -> None:
        """Answer the complete pulls. Equal answers are encoded once."""
        for pull in [pull for pull in self._pulls if len(pull.found) == len(pull.wanted)]:
            self._pulls.remove(pull)
            numbers = list(pull.wanted)
            versions = [pull.found[number][0] for number in numbers]
            identity = tuple(zip(numbers, versions, strict=True))
            if self._encoded is None or self._encoded[0] != identity:
                parts = [(self.server.partitions[n].key, pull.found[n][1]) for n in numbers]
                start = time.perf_counter()
                with fault_of("the encoding of weights"):
                    self._encoded = (identity, *self._leg.encode(parts))
                self.coding += time.perf_counter() - start
            _, meta, data = self._encoded
            self.server.pulled(pull.worker, numbers)
            reply(
                pull.worker, Envelope(Kind.WEIGHTS, numbers, versions, pull.ticket, meta, data.nbytes), data
            )
        kept = {(number, version) for pull in self._pulls for number, (version, _) in pull.found.items()}
        for identity_of in [key for key in self._snapshots if key not in kept]:
            del self._snapshots[identity_of]

    def _waited_for(self) -> tuple[_Pull, Partition, list[int]] | None:
        """Find a pull that cannot be answered.

        Returns it with the partition that lacks an update, and the workers that must push it.
        """
        for pull in self._pulls:
            for number in pull.wanted:
                if number not in pull.found:
                    return pull, self.server.partitions[number], self.server.missing(number)
        return None

    def _who(self, workers: Sequence[int], partition: Partition) -> str:
        ranks = ", ".join(str(self._ranks[worker]) for worker in workers)
        step = self.server.versions[partition.number]
        return f"worker rank {ranks} has not pushed key {partition.key!r} of step {step}"

    def _check_deserted(self) -> None:
        """Raise `TransportError` if a pull waits for a worker that is done."""
        waiting = self._waited_for()
        if waiting is None:
            return
        gone = [worker for worker in waiting[2] if worker in self.done]
        if gone:
            waits = self._ranks[waiting[0].worker]
            raise TransportError(f"{self._who(gone, waiting[1])} and is done, while rank {waits} waits")

    def owing(self, leaving: bool) -> set[int]:
        """Return the ranks of the workers that this server waits for.

        ``leaving`` means that this rank only waits until the workers are done.
        """
        if waiting := self._waited_for():
            return {self._ranks[worker] for worker in waiting[2]}
        return {rank for worker, rank in enumerate(self._ranks) if leaving and worker not in self.done}

    def check_limits(self, leaving: bool, silent_of: Callable[[Collection[int]], Collection[int]]) -> None:
        """Raise `TransportTimeout` if workers have kept the others waiting for too long.

        ``leaving`` is that of `owing`. ``silent_of`` is `Transport.silent`, since a late worker may itself
        wait for another rank.
        """
        if self._clock.now() - self._heard <= self._timeout or not (owing := self.owing(leaving)):
            return
        silent = set(silent_of(owing))
        waiting = self._waited_for()
        named = silent & owing or owing
        text = f"nothing from worker rank {', '.join(map(str, sorted(named)))} for {self._timeout:g} s"
        if waiting:
            late = [worker for worker in waiting[2] if self._ranks[worker] in named]
            text = f"{self._who(late, waiting[1])} in {self._timeout:g} s"
        if not silent & owing:
            text = f"nothing from {ranks_text(silent)} for {self._timeout:g} s; {text} and waits for it"
        raise TransportTimeout(text)

    @property
    def finished(self) -> bool:
        """True if all workers are done."""
        return len(self.done) == len(self._ranks)


def gradients_of(leg: Leg, plan: Plan, envelope: Envelope, data: Data | None) -> list[Floats | None]:
    """Return the gradients of a push, one per partition. All are None for a `Kind.SKIP`."""
    if envelope.kind is Kind.SKIP:
        return [None] * len(envelope.numbers)
    if envelope.kind is not Kind.PUSH:
        return []
    parts = parts_of(plan, envelope.numbers)
    values = leg.decode(envelope.meta, np.empty(0, np.uint8) if data is None else data, parts)
    return list(values)


def parts_of(plan: Plan, numbers: Sequence[int]) -> list[tuple[str, int]]:
    """Return key and size of each partition. Raises ``ValueError`` for a number that does not exist."""
    if any(number >= len(plan.partitions) for number in numbers):
        raise ValueError(f"there are {len(plan.partitions)} partitions, not {max(numbers) + 1}")
    return [(plan.partitions[number].key, plan.partitions[number].size) for number in numbers]
