# SPDX-License-Identifier: BSD-2-Clause
"""`ParameterServer`, a group of ranks that are workers, servers, or both."""

import os
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

import numpy as np

from ... import CodecName, crc32
from ...collectives import MismatchError, Path, Scale, StreamCodec, agree, exchanged, is_whole
from ...system.integers import integer
from ...transport import transport_of
from ..checks import Policy, check_policy, float32_array
from ..parameters import Floats
from ..traffic import Traffic
from .checkpoint import Checkpoints, Saved, load, load_worker, steps_in
from .exchange.legs import EncodedLeg, Encoding, Leg, RawLeg, push_leg
from .node import Node
from .optimizer import MomentumSGD, Optimizer
from .plan import WHOLE_BELOW, Plan
from .server import Mode, Server
from .serving import Serving
from .worker import Worker

_STEPS = range(1 << 62)


class ParameterServer:
    """A parameter server, as a context manager. All ranks make one with the same settings.

    ::

        with ParameterServer(transport, model.initial(), MomentumSGD(0.05)) as group:
            if group.worker is None:
                group.serve()
            else:
                weights = group.worker.pull()
                for step in range(100):
                    group.worker.push(model.gradients(weights, batches.at(step)))
                    weights = group.worker.pull()

    A thread of this rank owns the transport until `close`. If an error leaves the context, the other ranks
    get `PeerLost` with this rank's number and reason.

    Parameters
    ----------
    comm
        A `Transport`, or an mpi4py communicator. A rank may keep the others waiting for the transport's
        ``timeout``, in seconds.
    parameters
        Initial weights by key, float32. They must be equal at all ranks, which compare checksums.
    optimizer
        The servers' optimizer, by default `MomentumSGD`. Each rank needs its own instance.
    mode
        In "sync" (SSGD) an update takes the mean of all workers' gradients. In "async" (ASGD) each gradient
        is an update.
    servers, workers
        Ranks; all if None. Every rank must be a worker, a server, or both.
    codec, path, scale
        The form of pushed gradients (see `push_leg`), raw without a codec. ``scale`` is the base-2
        logarithm of the factor by which they are multiplied in transit; "auto" chooses it per message, and
        None keeps the bound absolute.
    encoding
        The form of pulled weights (see `Encoding`), raw if None. It also applies to a worker on a server's
        rank.
    nonfinite
        "raise" or "skip"; see `Worker.ipush`.
    checkpoints, every
        Directory for checkpoints, or None for none, and the number of steps between two. Servers write
        checkpoints, and so do workers with their own state (SSD-SGD).
    restore
        Directory from which to restore the group. It takes the latest step that all servers have, and all
        workers too if there is such a step. The workers' steps continue there; in mode "sync" the run has the
        same bits as an uninterrupted one. A damaged or foreign file is named at every rank. Nothing is
        restored then, and ``optimizer`` and ``encoding`` are unchanged.
    whole_below
        Keys with fewer values are not divided; see `Plan`.

    Raises `MismatchError` at every rank if they differ in keys, shapes or settings. If a rank's arguments are
    wrong, it raises its own ``TypeError`` or ``ValueError``, and the others raise `MismatchError`.
    """

    def __init__(
        self,
        comm: Any,
        parameters: Mapping[str, Floats],
        optimizer: Optimizer | None = None,
        *,
        mode: Mode = "sync",
        servers: Sequence[int] | None = None,
        workers: Sequence[int] | None = None,
        codec: StreamCodec | CodecName | None = None,
        path: Path | None = None,
        scale: Scale = "auto",
        encoding: Encoding | None = None,
        nonfinite: Policy = "raise",
        checkpoints: str | os.PathLike[str] | None = None,
        every: int = 100,
        restore: str | os.PathLike[str] | None = None,
        whole_below: int = WHOLE_BELOW,
    ) -> None:
        self.transport = transport_of(comm)
        self.traffic = Traffic()
        self.start_step = 0
        """The restored step, or 0."""
        transport, ranks = self.transport, range(self.transport.size)
        error: Exception | None = None
        terms: dict[str, Any] = {"mode": mode, "nonfinite": nonfinite, "whole_below": whole_below}
        rule = MomentumSGD() if optimizer is None else optimizer
        try:
            self.servers = _ranks("servers", servers, ranks)
            self.workers = _ranks("workers", workers, ranks)
            if idle := set(ranks) - {*self.servers, *self.workers}:
                raise ValueError(f"ranks {sorted(idle)} are neither workers nor servers")
            values = {
                key: np.ascontiguousarray(float32_array(key, value)) for key, value in parameters.items()
            }
            self.plan = Plan(
                {key: value.shape for key, value in values.items()}, len(self.servers), whole_below
            )
            push: Leg = push_leg(transport, codec, path, scale)
            pull: Leg = RawLeg() if encoding is None else EncodedLeg(encoding)
            serving = None
            saving = None if checkpoints is None else Checkpoints(checkpoints, every)
            if transport.rank in self.servers:
                index = self.servers.index(transport.rank)
                serving = Serving(
                    self.plan, index, values, self.workers, rule, mode, pull, transport.timeout, saving,
                    push.exact,
                )  # fmt: skip
            check_policy(nonfinite)
            terms |= {f"shape of key {key!r}": list(value.shape) for key, value in values.items()}
            terms |= {
                "servers": self.servers, "workers": self.workers, "keys": list(values),
                "optimizer": repr(rule), "push": push.name, "pull": pull.name,
                "restore": restore is not None, "every": integer("every", every),
            }  # fmt: skip
            if restore is None:  # a restored server has its own weights
                terms |= {f"values of key {key!r}": crc32(value) for key, value in values.items()}
        except (TypeError, ValueError, OSError) as problem:
            error = problem
        agree(transport, terms, None, error)
        self.server: Server | None = None if serving is None else serving.server
        saved: Saved | None = None
        if restore is not None:
            self.start_step, saved = self._restore(pull, restore)
        self._node = Node(
            transport, self.plan, self.workers, self.servers, serving, push, pull, self.traffic
        )  # fmt: skip
        self.worker: Worker | None = None
        if transport.rank in self.workers:
            index = self.workers.index(transport.rank)
            self.worker = Worker(
                self._node, index, nonfinite, mode == "sync", self.start_step, rule, saving, saved
            )  # fmt: skip
        self._closed = False
        self._node.start()

    def _restore(self, pull: Leg, directory: str | os.PathLike[str]) -> tuple[int, Saved | None]:
        """Restore the servers.

        Returns the step, and the state of this rank's worker if it has one. Collective.
        """
        rank, server = self.transport.rank, self.server
        error: Exception | None = None
        undo: Callable[[], None] | None = None
        saved: Saved | None = None
        here: list[list[int]] = [[], []]
        try:
            if server is not None:
                here[0] = steps_in(directory, "server", server.index)
            if rank in self.workers:
                here[1] = steps_in(directory, "worker", self.workers.index(rank))
        except OSError as problem:
            error = problem
        steps = exchanged(self.transport, here, _are_steps)
        holders = [holder for index, holder in enumerate(self.servers) if self.plan.of(index)]
        common = set.intersection(*(set(steps[holder][0]) for holder in holders))
        whole = common.intersection(*(steps[worker][1] for worker in self.workers))
        step = max(whole or common, default=0)
        if not common and error is None:
            lacking = [holder for holder in holders if not steps[holder][0]]
            where = f"; server ranks {lacking} have none" if lacking else ""
            error = ValueError(f"no step of which all servers have a checkpoint in {str(directory)!r}{where}")
        try:
            if error is None and rank in holders:
                assert server is not None
                undo = load(server, pull, directory, step)
            if error is None and whole and rank in self.workers:
                saved = load_worker(self.workers.index(rank), len(self.workers), directory, step)
        except Exception as problem:  # also errors of an optimizer or encoding, since the others must be told
            error = problem
        try:
            agree(self.transport, {}, None, error)
        except BaseException:
            if undo is not None:
                undo()
            raise
        return step, saved

    def serve(self) -> None:
        """Serve until all workers are done, at a rank that is not a worker.

        Raises the error that broke the group, and ``ValueError`` at a worker.
        """
        if self.worker is not None:
            raise ValueError(f"rank {self.transport.rank} is a worker; its server runs beside it")
        self.close()

    def close(self) -> None:
        """End this rank's part once all workers have called it.

        After it, the caller may use the transport again. Raises the error that broke the group.
        """
        if not self._closed:
            self._closed = True
            self._node.finish()

    def give_up(self, reason: str) -> None:
        """End this rank's part at once. The others get `PeerLost` with the reason."""
        if not self._closed:
            self._closed = True
            self._node.give_up(reason)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        else:
            self.give_up(f"{type(error).__name__}: {error}")


def _are_steps(value: Any) -> bool:
    """Tell whether a rank's message holds the steps of a server's and of a worker's checkpoints."""
    match value:
        case [list(), list()]:
            return all(is_whole(step, _STEPS) for steps in value for step in steps)
    return False


def _ranks(name: str, chosen: Sequence[int] | None, ranks: range) -> list[int]:
    if chosen is None:
        return list(ranks)
    found = list(chosen)
    if not found or len(set(found)) != len(found) or not set(found) <= set(ranks):
        raise ValueError(f"{name} must be different ranks of 0..{len(ranks) - 1}, not {found!r}")
    return found


__all__ = ["MismatchError", "ParameterServer"]
