# SPDX-License-Identifier: BSD-2-Clause
"""Tuning in the first steps: alphas, which choose the architectures, and partitions (Sec. 3)."""

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from ...collectives import exchanged, is_amount
from ..parameters import Floats, Parameters, RowSparse
from ..traffic import Traffic
from .config import ParallaxConfig
from .exchange.row_sets import Rows
from .exchange.served_variables import ServedVariables
from .partition_search import PartitionSearch
from .transfer_model import SparsityMeter, choose


class Tuning:
    """Chooses each variable's architecture during training. All ranks call the same methods.

    Attributes: ``alphas``, by key of the sparse variables; ``architectures``, by key; ``searches``, a
    `PartitionSearch` per partitioner; ``settled``, whether everything is known.

    ``trial`` all-reduces a gradient, as the runner would, and returns the bytes that this rank sent.
    """

    def __init__(
        self,
        config: ParallaxConfig,
        parameters: Parameters,
        served: ServedVariables,
        partitioners: Sequence[Sequence[str]],
        traffic: Traffic,
        trial: Callable[[Floats], int],
    ) -> None:
        self.config, self.parameters, self.served, self.traffic = config, parameters, served, traffic
        self._trial = trial
        self._last: dict[str, RowSparse] = {}
        """This rank's gradients of the last step that was taken, until the architectures are chosen."""
        self.transport, self.machines = served.transport, served.machines
        self.alphas: dict[str, float] = {}
        self.architectures: dict[str, str] = {}
        self.searches: list[PartitionSearch] = []
        self.settled = False
        self._partitioners = partitioners
        self._meters: dict[str, SparsityMeter] = {}
        self._machine_meters: dict[str, SparsityMeter] = {}
        """The share that all workers of this machine use together, at its chief."""
        self._times: list[float] = []
        self._searched = 0

    @property
    def sparse(self) -> dict[str, SparsityMeter]:
        """The sparse variables, by key; empty before `begin`."""
        return self._meters

    def begin(self, sparse: Sequence[str]) -> None:
        """Note the sparse variables, and give them to the servers if the strategy has servers.

        Raises ``ValueError`` if a dense variable is to be partitioned.
        """
        for key in (key for keys in self._partitioners for key in keys):
            if key not in sparse:
                raise ValueError(f"only sparse variables are partitioned, not the dense {key!r}")
        for key in sparse:
            self._meters[key] = SparsityMeter(self.parameters[key].size)
            self._machine_meters[key] = SparsityMeter(self.parameters[key].size)
        by_servers = self.config.strategy in ("hybrid", "parameter_server")
        for key, values in self.parameters.items():
            served = by_servers and key in sparse
            self.architectures[key] = "parameter_server" if served else "all_reduce"
            if served:
                self.served.serve(key, values, self.config.partitions)

    def count(self, key: str, rows: Rows, gradient: RowSparse) -> None:
        """Count the rows of a sparse variable that a step uses, and keep its gradient for the choice."""
        if not self.alphas:
            self._last[key] = gradient
        width = self.parameters[key].size // len(self.parameters[key])
        self._meters[key].add(rows.size * width)
        if key in self.served and (together := self.served[key].machine_rows) is not None:
            self._machine_meters[key].add(together.size * width)

    def after_step(self, steps: int, seconds: float) -> None:
        """Take the time of the last of ``steps`` steps, and continue the tuning."""
        if steps == self.config.alpha_steps:
            self._choose()
            self._searched = -1
            self._next_search()
        elif steps > self.config.alpha_steps:
            self._sample(seconds)

    def _choose(self) -> None:
        """Compute the alphas of all workers, and choose the architecture of each sparse variable."""
        alphas = {key: meter.alpha for key, meter in self._meters.items()}
        trials = self._trials()
        together = {key: meter.alpha for key, meter in self._machine_meters.items()}
        pushed, raw = self.traffic.sent["gradients"], self.traffic.raw["gradients"]
        answers = exchanged(
            self.transport,
            {"alphas": alphas, "machine": together, "pushed": pushed, "raw": raw, "trials": trials},
            lambda answer: _is_measured(answer, alphas.keys()),
        )
        pushed, raw = (sum(answer[word] for answer in answers) for word in ("pushed", "raw"))
        for key in alphas:
            self.alphas[key] = float(np.mean([answer["alphas"][key] for answer in answers]))
        if self.config.strategy != "hybrid":
            return
        for key in list(self.served):
            values = self.parameters[key]
            choice = choose(
                values.nbytes,
                len(self.machines.chiefs),
                float(np.mean([answers[chief]["machine"][key] for chief in self.machines.chiefs])),
                row_bytes=self.served[key].row_bytes,
                ratio=raw / pushed if pushed else 1.0,
                all_reduce_ratio=self._all_reduce_ratio(key, [answer["trials"] for answer in answers]),
                advantage=self.config.advantage,
            )
            self.architectures[key] = choice.architecture
            if choice.architecture == "all_reduce":
                values[...] = self.served.pop(key).whole()

    def _trials(self) -> dict[str, int]:
        """Count the bytes that this rank sends where the servers' variables are all-reduced, by key.

        The codec's ratio for dense gradients and their sums follows from no other bytes, so one all-reduce of
        the last gradients is made. Empty without a codec, whose bytes are known.
        """
        last, self._last = self._last, {}
        if self.config.strategy != "hybrid" or self.config.path == "off":
            return {}
        return {key: self._trial(last[key].dense()) for key in self.served if key in last}

    def _all_reduce_ratio(self, key: str, trials: Sequence[dict[str, int]]) -> float | None:
        """Return raw bytes of all ranks' all-reduce over those of the trial. None without a trial."""
        sent = sum(trial.get(key, 0) for trial in trials)
        return 2 * (self.transport.size - 1) * self.parameters[key].nbytes / sent if sent else None

    def _next_search(self) -> None:
        """Begin the search for the next partitioner that has a variable on the servers."""
        self._searched += 1
        while self._searched < len(self._partitioners) and self.config.partitions is None:
            keys = self._keys()
            if keys:
                most = min(len(self.parameters[key]) for key in keys)
                self.searches.append(PartitionSearch(len(self.machines.chiefs), most))
                self.served.repartition(keys, self.searches[-1].partitions)
                return
            self._searched += 1
        self.settled = True

    def _keys(self) -> list[str]:
        """Return the variables of the current partitioner that servers hold."""
        return [key for key in self._partitioners[self._searched] if key in self.served]

    def _sample(self, seconds: float) -> None:
        self._times.append(seconds)
        if len(self._times) < self.config.warm_up + self.config.sampled:
            return
        mean = float(np.mean(self._times[self.config.warm_up :]))
        self._times = []
        search = self.searches[-1]
        search.add(max(exchanged(self.transport, mean, is_amount)))
        self.served.repartition(self._keys(), search.partitions)
        if search.done:
            self._next_search()


def _is_measured(value: Any, sparse: Collection[str]) -> bool:
    """Tell whether a rank's message holds its alphas of the sparse variables, 0..1, and counts of bytes."""
    match value:
        case {
            "alphas": dict(alphas),
            "machine": dict(machine),
            "pushed": pushed,
            "raw": raw,
            "trials": dict(trials),
        }:
            return (
                alphas.keys() == machine.keys() == set(sparse)
                and all(is_amount(alpha, 1) for alpha in (*alphas.values(), *machine.values()))
                and all(is_amount(count) for count in (pushed, raw, *trials.values()))
            )
    return False
