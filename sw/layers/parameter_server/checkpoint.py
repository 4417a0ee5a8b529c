# SPDX-License-Identifier: BSD-2-Clause
"""Checkpoints of servers: weights, versions and the optimizer's state, one .npz file per server and step."""

from __future__ import annotations

import json
import os
import re
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from inceptionn.layers.parameter_server.legs import Leg
from inceptionn.layers.parameter_server.plan import Partition
from inceptionn.layers.parameter_server.server import Server
from inceptionn.training import Floats

FORMAT = 2
"""Version of the files."""
KEPT = 2
"""Newest checkpoints that stay: until all servers have written the last one, all have the one before."""


class Checkpoints:
    """One server's checkpoints in a directory, written every ``every`` steps.

    In mode "sync" each partition is copied in the moment when it reaches the step, so a checkpoint is exactly
    the state between two steps, even if workers have pushed further. In mode "async" everything is copied
    when the first partition has seen so many updates. What the pull leg's encoding goes by is kept as it is
    when the first partition reaches the step: it has seen the weights that workers computed that step with.

    ``ValueError`` if ``every`` is below 1; ``OSError`` where the directory cannot be made or written.
    """

    def __init__(self, directory: str | os.PathLike[str], every: int) -> None:
        if every < 1:
            raise ValueError(f"every must be at least 1, not {every!r}")
        self.directory, self.every = Path(directory), every
        self.directory.mkdir(parents=True, exist_ok=True)
        self._copies: dict[int, dict[int, tuple[Floats, dict[str, Floats]]]] = {}
        self._legs: dict[int, dict[str, Any]] = {}

    def note(self, server: Server, partition: Partition, version: int, leg: Leg) -> None:
        """Called behind each update; writes a file when a checkpoint is complete."""
        if version % self.every:
            return
        if server.mode == "async":
            if partition.number == min(server.partitions):
                copied = {n: self._copy(server, n) for n in server.partitions}
                self._write(server, version, copied, _state_of(leg))
            return
        if version not in self._copies:
            self._legs[version] = _state_of(leg)
        copies = self._copies.setdefault(version, {})
        copies[partition.number] = self._copy(server, partition.number)
        if len(copies) == len(server.partitions):
            self._write(server, version, self._copies.pop(version), self._legs.pop(version))

    @staticmethod
    def _copy(server: Server, number: int) -> tuple[Floats, dict[str, Floats]]:
        return server.weights[number].copy(), server.optimizer.partition_state(number)

    def _write(
        self,
        server: Server,
        version: int,
        copies: dict[int, tuple[Floats, dict[str, Floats]]],
        leg: dict[str, Any],
    ) -> None:
        about = _about(server)
        about["pull"] = leg
        about["versions"] = {
            str(number): version if server.mode == "sync" else server.versions[number] for number in copies
        }
        arrays: dict[str, Any] = {"about": np.array(json.dumps(about))}
        for number, (weights, state) in copies.items():
            arrays[f"weights{number}"] = weights
            arrays |= {f"optimizer {name}": array for name, array in state.items()}
        path = path_of(self.directory, server.index, version)
        partial = path.with_suffix(f".{os.getpid()}.partial")
        with partial.open("wb") as file:
            np.savez(file, **arrays)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
        for old in steps_in(self.directory, server.index)[:-KEPT]:
            path_of(self.directory, server.index, old).unlink(missing_ok=True)


def path_of(directory: Path, server: int, step: int) -> Path:
    """The file of a server's checkpoint."""
    return directory / f"server{server}-step{step}.npz"


def steps_in(directory: str | os.PathLike[str], server: int) -> list[int]:
    """Steps of which there is a checkpoint of a server, ascending."""
    pattern = re.compile(rf"server{server}-step(\d+)\.npz")
    found = [pattern.fullmatch(path.name) for path in Path(directory).glob("*.npz")]
    return sorted(int(match[1]) for match in found if match)


def load(server: Server, leg: Leg, directory: str | os.PathLike[str], step: int) -> None:
    """Puts a server into the state of its checkpoint of a step, and its pull leg if that was the same.

    ``ValueError`` if the checkpoint is of other keys, shapes, numbers of servers, mode or optimizer, naming
    the first difference, or damaged; ``FileNotFoundError`` if there is none.
    """
    path = path_of(Path(directory), server.index, step)
    try:
        with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        about = json.loads(str(arrays.pop("about")))
        versions, pull = about.pop("versions"), about.pop("pull")
    except (KeyError, EOFError, ValueError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(f"{path} is no checkpoint of a server, or damaged: {error}") from error
    own = json.loads(json.dumps(_about(server)))
    for name, value in own.items():
        if about.get(name) != value:
            raise ValueError(f"{path}: {name} is {about.get(name)!r} there, {value!r} here")
    for number in server.partitions:
        server.weights[number][:] = arrays[f"weights{number}"]
        server.versions[number] = versions[str(number)]
    server.optimizer.load(
        {n.removeprefix("optimizer "): a for n, a in arrays.items() if n.startswith("optimizer ")}
    )
    if pull["name"] == leg.name and pull["state"] is not None:
        leg.load(pull["state"])


def _state_of(leg: Leg) -> dict[str, Any]:
    return {"name": leg.name, "state": leg.state()}


def _about(server: Server) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "servers": server.plan.servers,
        "shapes": {key: list(shape) for key, shape in server.plan.shapes.items()},
        "whole_below": server.plan.whole_below,
        "mode": server.mode,
        "optimizer": repr(server.optimizer),
    }
