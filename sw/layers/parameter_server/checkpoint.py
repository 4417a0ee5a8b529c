# SPDX-License-Identifier: BSD-2-Clause
"""Checkpoints of servers and workers, one file per server or worker and step.

A server's file holds weights, versions, the optimizer's state and the state of the pull leg. A worker's file
holds state that its training keeps in addition to the servers' weights, as SSD-SGD does.
"""

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ...system.integers import integer
from .. import checkpoint
from ..fields import Fields, named
from ..parameters import Floats
from .exchange.legs import Leg
from .optimizer import state_in
from .plan import Partition
from .server import Server

FORMAT = 3
"""Version of the file format."""
KEPT = 2
"""Number of newest checkpoints that are kept. Until all servers have written the last one, all have the one
before it.

This holds if no worker makes ``every`` steps without a pull, since a pull waits for the others.
"""

Role = Literal["server", "worker"]

_Copy = tuple[Floats, dict[str, Floats]]
"""A partition's weights, and its part of the optimizer's state."""


@dataclass(frozen=True)
class Saved:
    """A worker's state, and the file from which it was read."""

    path: Path
    state: Any


class Checkpoints:
    """One rank's checkpoints in a directory, written every ``every`` steps.

    In mode "sync" each partition is copied when it reaches the step. So a checkpoint is exactly the state
    between two steps, even if workers have pushed further. In mode "async" everything is copied when the
    first partition has had that number of updates. The state of the pull leg's encoding is copied when the
    first partition reaches the step. It has then seen the weights that workers used in that step.

    Raises ``ValueError`` if ``every`` is below 1, ``TypeError`` if it is not an integer, and ``OSError`` if
    the directory cannot be created or written.
    """

    def __init__(self, directory: str | os.PathLike[str], every: int) -> None:
        self.directory, self.every = Path(directory), integer("every", every, 1)
        self.directory.mkdir(parents=True, exist_ok=True)
        self._copies: dict[int, dict[int, _Copy]] = {}
        self._legs: dict[int, dict[str, Any]] = {}

    def note(self, server: Server, partition: Partition, version: int, leg: Leg) -> None:
        """Write a file when a checkpoint is complete. Called after each update."""
        if version % self.every:
            return
        if server.mode == "async":
            if partition.number == min(server.partitions):
                copied = {n: self._copy(server, n) for n in server.partitions}
                self._write_server(server, version, copied, _state_of(leg))
            return
        if version not in self._copies:
            self._legs[version] = _state_of(leg)
        copies = self._copies.setdefault(version, {})
        copies[partition.number] = self._copy(server, partition.number)
        if len(copies) == len(server.partitions):
            self._write_server(server, version, self._copies.pop(version), self._legs.pop(version))

    def note_worker(self, index: int, workers: int, step: int, state: Callable[[], Any]) -> None:
        """Write the worker's state if a checkpoint is due. Called after a worker's step."""
        if step % self.every == 0:
            self._write("worker", index, step, {"workers": workers, "state": state()})

    @staticmethod
    def _copy(server: Server, number: int) -> _Copy:
        return server.weights[number].copy(), server.optimizer.partition_state(server.partitions[number])

    def _write_server(
        self, server: Server, step: int, copies: Mapping[int, _Copy], leg: Mapping[str, Any]
    ) -> None:
        versions = {n: step if server.mode == "sync" else server.versions[n] for n in copies}
        state = {
            **_settings(server),
            "versions": {str(number): version for number, version in versions.items()},
            "weights": {str(number): weights for number, (weights, _) in copies.items()},
            "state": {name: array for _, kept in copies.values() for name, array in kept.items()},
            "pull": leg,
        }
        self._write("server", server.index, step, state)

    def _write(self, role: Role, index: int, step: int, state: Mapping[str, Any]) -> None:
        about = {"format": FORMAT, "role": role, "index": index, "step": step}
        checkpoint.save(path_of(self.directory, role, index, step), {**about, **state})
        earlier = [old for old in steps_in(self.directory, role, index) if old <= step]
        for old in earlier[:-KEPT]:
            path_of(self.directory, role, index, old).unlink(missing_ok=True)


def path_of(directory: str | os.PathLike[str], role: Role, index: int, step: int) -> Path:
    """Return the file of a server's or worker's checkpoint."""
    return Path(directory) / f"{role}{index}-step{step}.npz"


def steps_in(directory: str | os.PathLike[str], role: Role, index: int) -> list[int]:
    """Return the steps for which a server or worker has a checkpoint, ascending."""
    pattern = re.compile(rf"{role}{index}-step(0|[1-9]\d*)\.npz")
    found = [pattern.fullmatch(path.name) for path in Path(directory).glob("*.npz")]
    return sorted(int(match[1]) for match in found if match)


def load_worker(index: int, workers: int, directory: str | os.PathLike[str], step: int) -> Saved:
    """Read a worker's state. Raise ``ValueError`` for a wrong or damaged file, and ``OSError``."""
    path = path_of(directory, "worker", index, step)
    state = checkpoint.load(path)
    with named(str(path)):
        fields = _about(state, "worker", index, step, ("workers", "state"))
        fields.same("workers", workers)
    return Saved(path, fields["state"])


def load(server: Server, leg: Leg, directory: str | os.PathLike[str], step: int) -> Callable[[], None]:
    """Restore a server from its checkpoint of a step, and its pull leg if that has the same name.

    Returns a function that undoes this, since another rank may have no such checkpoint. Raises ``ValueError``
    with the file and the first wrong field if the checkpoint is damaged, or has other keys, shapes, numbers
    of servers, mode or optimizer. Raises ``OSError`` if it cannot be read. Nothing is changed then.
    """
    path = path_of(directory, "server", server.index, step)
    state, settings = checkpoint.load(path), _settings(server)
    weights, versions, kept = dict(server.weights), dict(server.versions), server.optimizer.state_dict()
    before = leg.state_dict()

    def undo() -> None:
        server.weights, server.versions = weights, versions
        server.optimizer.load_state_dict(kept)
        leg.load_state_dict(before)

    with named(str(path)):
        fields = _about(
            state, "server", server.index, step, (*settings, "versions", "weights", "state", "pull")
        )
        for name, value in settings.items():
            fields.same(name, value)
        numbers = {str(number): number for number in server.partitions}
        found = fields.within("versions", numbers)
        if server.mode == "sync":
            for name in numbers:
                found.same(name, step)
        loaded = {number: found.integer(name) for name, number in numbers.items()}
        arrays = fields.arrays("weights", {name: server.weights[n].shape for name, n in numbers.items()})
        momenta = state_in(fields, "state", server.optimizer, server.partitions.values())
        pull = fields.within("pull", ("name", "state"))
        try:
            with fields.naming("state"):
                server.optimizer.load_state_dict(momenta)
            if pull["name"] == leg.name:
                with pull.naming("state") as seen:
                    leg.load_state_dict(seen)
        except BaseException:
            undo()
            raise
        server.weights = {number: arrays[name] for name, number in numbers.items()}
        server.versions = loaded
    return undo


def _about(state: Any, role: Role, index: int, step: int, names: tuple[str, ...]) -> Fields:
    """Return the fields of a file, whose content must agree with its name."""
    stated = {"format": FORMAT, "role": role, "index": index, "step": step}
    if isinstance(state, dict) and state.get("format") != FORMAT:
        raise ValueError(f"format is {state.get('format')!r} there, {FORMAT} here")
    fields = Fields(state, (*stated, *names))
    for name, value in stated.items():
        fields.same(name, value)
    return fields


def _state_of(leg: Leg) -> dict[str, Any]:
    return {"name": leg.name, "state": leg.state_dict()}


def _settings(server: Server) -> dict[str, Any]:
    return {
        "servers": server.plan.servers,
        "shapes": {key: list(shape) for key, shape in server.plan.shapes.items()},
        "whole_below": server.plan.whole_below,
        "mode": server.mode,
        "optimizer": repr(server.optimizer),
    }
