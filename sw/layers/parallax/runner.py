# SPDX-License-Identifier: BSD-2-Clause
"""`get_runner`: a model written for one worker, trained by all ranks (Sec. 4)."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NoReturn, Protocol

import numpy as np

from ...codec.codec import crc32
from ...collectives import Op, allreduce_comp
from ...collectives.agreement import agree, choose_path
from ...collectives.call import transport_of
from ...collectives.lost_energy import watch
from ...collectives.own_scale import with_scale
from ...collectives.settings import codec_text
from ...collectives.wire_form import wire_form
from ...training import Floats, Gradients, Parameters, RowSparse
from ..checks import float32_array
from ..parameter_server import NonFiniteGradient, Optimizer, Partition
from ..traffic import Traffic
from .all_gather import all_gather_sum
from .config import ParallaxConfig, Partitioner
from .gradient_check import misfit, values_of
from .partition_search import PartitionSearch
from .row_sets import Rows
from .sparse_exchange import Machines, SparseVariable, machines_of
from .transfer_model import SparsityMeter, choose, model_alpha


class Trainable(Protocol):
    """What a runner needs of a model: `inceptionn.training.Model`, or `TorchModel`."""

    def initial(self, seed: int = 0) -> Parameters:
        """float32 arrays by key; what the runner writes into them is what the next call computes with."""

    def loss_and_gradients(self, parameters: Mapping[str, Floats], batch: Any) -> tuple[float, Gradients]:
        """The loss, and by key arrays or `RowSparse`, which says that the variable is sparse (Sec. 5)."""

    def rows(self, batch: Any) -> Mapping[str, Rows]:
        """By key of a sparse variable the rows, ascending and distinct, that the batch looks up."""


def shard(data: Iterable[Any], comm: Any) -> list[Any]:
    """This rank's samples of ``data``: every N-th, from its rank on (``shard`` of Sec. 4.1).

    The shares of all N ranks are disjoint and equal, since all must run the same number of steps: the last
    samples, fewer than N, are left out. ``ValueError`` if there are fewer than N in all. For arrays and
    `Batch`es see `inceptionn.training.Batches`, which deals out steps instead.
    """
    transport = transport_of(comm)
    samples = list(data)
    share = len(samples) // transport.size
    if not share:
        raise ValueError(f"data must have a sample for each of {transport.size} ranks, not {len(samples)}")
    return samples[transport.rank : share * transport.size : transport.size]


def get_runner(
    model: Trainable,
    comm: Any,
    optimizer: Callable[[], Optimizer],
    config: ParallaxConfig | None = None,
    *,
    partitioners: Iterable[Partitioner] = (),
    machine: str | None = None,
    seed: int = 0,
) -> Runner:
    """A runner for ``model``. Collective: all ranks call it with the same settings.

    Parameters
    ----------
    model
        See `Trainable`.
    comm
        A `Transport` or an mpi4py communicator; one rank per worker.
    optimizer
        Makes one for the dense variables and one for each sparse variable's server.
    config
        `ParallaxConfig`.
    partitioners
        Variables whose number of partitions is searched for. They must be sparse.
    machine
        Name of this rank's machine, the host name by default. The lowest rank of each holds its server.
    seed
        Of ``model.initial``; the same at all ranks.

    `MismatchError` at every rank if settings, keys, shapes or initial values differ, or one cannot take part;
    there, its own error: ``ValueError`` for a partitioner's key that the model does not have, ``TypeError``
    for a parameter that is not float32.
    """
    settings = config or ParallaxConfig()
    return Runner(model, transport_of(comm), optimizer, settings, partitioners, machine, seed)


class Runner:
    """Trains in step with all ranks; made by `get_runner`.

    Attributes: ``parameters``, this worker's replica, in which of the sparse variables only the rows of the
    last batch are up to date (see `gathered`); ``alphas``, by key of the sparse variables;
    ``architectures``, by key; ``searches``, a `PartitionSearch` per partitioner; ``step``, steps
    done; ``traffic``, what this rank sent: "dense", "rows", "values", "gradients" between machines, "local"
    within one; ``settled``, whether alphas and partitions are found.

    A step costs one all-reduce of the dense variables and a pull and a push of each sparse one. While the
    search moves from one number of partitions to the next, the servers' optimisers are reset.
    """

    def __init__(
        self,
        model: Trainable,
        transport: Any,
        optimizer: Callable[[], Optimizer],
        config: ParallaxConfig,
        partitioners: Iterable[Partitioner],
        machine: str | None,
        seed: int,
    ) -> None:
        self.model, self.transport, self.config = model, transport, config
        self.parameters = model.initial(seed)
        self.alphas: dict[str, float] = {}
        self.architectures: dict[str, str] = {}
        self.searches: list[PartitionSearch] = []
        self.traffic = Traffic()
        self.step = 0
        self.settled = False
        self._optimizer = optimizer
        self._dense = optimizer()
        self._whole = {
            key: Partition(number, key, 0, 0, np.size(value))
            for number, (key, value) in enumerate(self.parameters.items())
        }
        self._partitioners = [list(p.keys) for p in partitioners]
        self._variables: dict[str, SparseVariable] = {}
        self._servers: dict[str, Optimizer] = {}
        self._meters: dict[str, SparsityMeter] = {}
        self._machine_meters: dict[str, SparsityMeter] = {}
        """What all workers of this rank's machine use, at its chief."""
        self._times: list[float] = []
        self._searched = 0
        error: Exception | None = None
        terms = self._terms()
        try:
            for key, value in self.parameters.items():
                terms |= {f"values of key {key!r}": crc32(np.ascontiguousarray(float32_array(key, value)))}
            for key in (key for keys in self._partitioners for key in keys):
                if key not in self.parameters:
                    raise ValueError(f"the model has no variable {key!r} to partition")
            self._path, codec = choose_path(transport, config.path, config.codec)
            self._codec = codec if self._path == "nic" else with_scale(codec, config.scale)
        except (TypeError, ValueError) as problem:
            error = problem
        agree(transport, terms, None, error)
        self.machines = self._machines(machine)

    def _terms(self) -> dict[str, Any]:
        codec = self.config.codec
        return {name: repr(value) for name, value in vars(self.config).items()} | {
            "codec": None if codec is None else codec_text(codec),
            "partitioners": self._partitioners,
            "keys": list(self.parameters),
            **{f"shape of key {key!r}": list(np.shape(value)) for key, value in self.parameters.items()},
        }

    def _machines(self, name: str | None) -> Machines:
        if self.config.local_aggregation:
            return machines_of(self.transport, name or socket.gethostname())
        return Machines(tuple(range(self.transport.size)))

    def run(self, batch: Any) -> float:
        """One training step on this worker's batch; its loss. Collective.

        The first steps also measure alpha and search for partitions: they train like all others.
        `NonFiniteGradient` at the rank that has one and `PeerLost` at the others, with the same text;
        likewise ``ValueError`` for gradients with other keys, shapes or types than the variables.
        """
        start = time.perf_counter()
        rows = self.model.rows(batch)
        self._pull(rows)
        loss, gradients = self.model.loss_and_gradients(self.parameters, batch)
        sparse = self._meters if self.step else None
        if problem := misfit(gradients, self.parameters, sparse):
            self._fail(ValueError(f"step {self.step}: {problem}"))
        if self.step == 0:
            self._first(gradients)
            self._pull(rows)  # the values have not changed, but a push must follow its pull
        if self._finite(gradients):
            self._exchange(gradients, rows)
        self.step += 1
        if not self.settled:
            self._settle(time.perf_counter() - start)
        return loss

    def gathered(self) -> Parameters:
        """All variables, whole, at every rank: for evaluation and checkpoints. Collective."""
        return {
            key: self._variables[key].whole() if key in self._variables else value
            for key, value in self.parameters.items()
        }

    def repartition(self, keys: Iterable[str], partitions: int) -> None:
        """Divides variables of the servers into this number of partitions. Collective.

        Resets the servers' optimisers. ``ValueError`` for more partitions than rows.
        """
        for key in keys:
            if self.partitions(key) not in (0, partitions):
                self._serve(key, self._variables[key].whole(), partitions)

    @property
    def model_alpha(self) -> float:
        """``alpha_model`` of Sec. 2.2, dense variables with 1."""
        alphas = {key: self.alphas.get(key, 1.0) for key in self.parameters}
        return model_alpha(alphas, {key: value.size for key, value in self.parameters.items()})

    def partitions(self, key: str) -> int:
        """Partitions of a variable; 0 if the servers do not hold it."""
        return self._variables[key].partitions.count if key in self._variables else 0

    def _pull(self, rows: Mapping[str, Rows]) -> None:
        for key, variable in self._variables.items():
            if key not in rows:
                self._fail(ValueError(f"the model names no rows of the sparse {key!r} in step {self.step}"))
            self.parameters[key][rows[key]] = variable.pull(rows[key])

    # One step's gradients.

    def _exchange(self, gradients: Gradients, rows: Mapping[str, Rows]) -> None:
        config, size = self.config, self.transport.size
        dense: dict[str, Floats] = {}
        for key, gradient in gradients.items():
            if key in self._meters:
                width = self.parameters[key].size // len(self.parameters[key])
                self._meters[key].add(rows[key].size * width)
                variable = self._variables.get(key)
                if variable is not None and variable.machine_rows is not None:
                    self._machine_meters[key].add(variable.machine_rows.size * width)
            if isinstance(gradient, RowSparse) and self._path != "off" and config.strategy != "dense":
                watch(self.transport)(f"key {key!r}", self._codec, gradient.values)
            if not isinstance(gradient, RowSparse):
                dense[key] = gradient
            elif key in self._variables:
                factor = np.float32(1 / size if config.sparse_op is Op.MEAN else 1)
                self._variables[key].push(self._aligned(key, gradient, rows[key]) * factor)
            elif config.strategy == "all_gather":
                form = wire_form(self.transport, self._path, self._codec)
                total, sent = all_gather_sum(self.transport, gradient, form)
                self.traffic.count("gradients", sent)
                values = total.values / np.float32(size) if config.sparse_op is Op.MEAN else total.values
                self._dense.update(self._whole[key], self.parameters[key], values, self.step, total.rows)
            else:
                dense[key] = gradient.dense()
        for op in {config.dense_op, config.sparse_op}:
            chosen = {
                key: value
                for key, value in dense.items()
                if (config.sparse_op if key in self._meters else config.dense_op) is op
            }
            self._all_reduce(chosen, op)

    def _all_reduce(self, gradients: dict[str, Floats], op: Op) -> None:
        """All dense gradients as one vector: fewer messages, and the codec's blocks are full."""
        if not gradients:
            return
        flat = np.concatenate([np.asarray(value, np.float32).reshape(-1) for value in gradients.values()])
        before = self.transport.bytes_sent
        config = self.config
        allreduce_comp(
            self.transport, None, flat, op, codec=config.codec, path=config.path, scale=config.scale
        )
        self.traffic.count("dense", self.transport.bytes_sent - before)
        start = 0
        for key, value in gradients.items():
            mean = flat[start : start + value.size].reshape(value.shape)
            self._dense.update(self._whole[key], self.parameters[key], mean, self.step)
            start += value.size

    def _aligned(self, key: str, gradient: RowSparse, rows: Rows) -> Floats:
        """The gradient's values for just the rows that were pulled."""
        if np.array_equal(gradient.rows, rows):
            return gradient.values
        places = np.searchsorted(rows, gradient.rows)
        if gradient.rows.size and (places[-1] >= rows.size or (rows[places] != gradient.rows).any()):
            self._fail(
                ValueError(f"the gradient of {key!r} names rows that step {self.step} did not look up")
            )
        values = np.zeros((rows.size, *gradient.shape[1:]), np.float32)
        values[places] = gradient.values
        return values

    def _finite(self, gradients: Gradients) -> bool:
        """Whether the step is to be taken; as `ParallaxConfig.non_finite` says."""
        wrong = [key for key, gradient in gradients.items() if not np.isfinite(values_of(gradient)).all()]
        if self.config.non_finite == "raise":
            if wrong:
                self._fail(NonFiniteGradient(wrong[0], self.step))
            return True
        return not any(self.transport.exchange(wrong))

    def _fail(self, error: Exception) -> NoReturn:
        """Raises here, and through the transport at all other ranks."""
        self.transport.abort(str(error))
        raise error

    # What the first steps measure.

    def _first(self, gradients: Gradients) -> None:
        """Which variables are sparse, by the types of their gradients (Sec. 5)."""
        sparse = [key for key, gradient in gradients.items() if isinstance(gradient, RowSparse)]
        agree(self.transport, {"sparse variables": sparse}, None, None)
        for key in (key for keys in self._partitioners for key in keys):
            if key not in sparse:
                raise ValueError(f"only sparse variables are partitioned, not the dense {key!r}")
        for key in sparse:
            self._meters[key] = SparsityMeter(self.parameters[key].size)
            self._machine_meters[key] = SparsityMeter(self.parameters[key].size)
        served = self.config.strategy in ("hybrid", "parameter_server")
        for key, values in self.parameters.items():
            by_server = served and key in sparse
            self.architectures[key] = "parameter_server" if by_server else "all_reduce"
            if by_server:
                partitions = self.config.partitions or min(len(self.machines.chiefs), len(values))
                self._serve(key, values, partitions)

    def _serve(self, key: str, initial: Floats, partitions: int) -> None:
        server = self._servers[key] = self._optimizer()

        def update(partition: int, values: Floats, rows: Rows, gradient: Floats) -> None:
            part = Partition(partition, key, partition % len(self.machines.chiefs), 0, values.size)
            server.update(part, values, gradient, self.step, rows)

        push = wire_form(self.transport, self._path, self._codec)
        self._variables[key] = SparseVariable(
            self.transport, self.machines, initial, partitions, update, push, self.traffic
        )

    def _settle(self, seconds: float) -> None:
        if self.step == self.config.alpha_steps:
            self._choose()
            self._searched = -1
            self._next_search()
        elif self.step > self.config.alpha_steps:
            self._sample(seconds)

    def _choose(self) -> None:
        """Alphas of all workers together, and by them the architecture of each sparse variable."""
        own = {key: meter.alpha for key, meter in self._meters.items()}
        together = {key: meter.alpha for key, meter in self._machine_meters.items()}
        pushed, raw = self.traffic.sent["gradients"], self.traffic.raw["gradients"]
        answers = self.transport.exchange({"alphas": own, "machine": together, "pushed": pushed, "raw": raw})
        pushed, raw = (sum(answer[word] for answer in answers) for word in ("pushed", "raw"))
        for key in own:
            self.alphas[key] = float(np.mean([answer["alphas"][key] for answer in answers]))
        if self.config.strategy != "hybrid":
            return
        for key in list(self._variables):
            values = self.parameters[key]
            choice = choose(
                values.nbytes,
                len(self.machines.chiefs),
                float(np.mean([answers[chief]["machine"][key] for chief in self.machines.chiefs])),
                row_bytes=self._variables[key].row_bytes,
                ratio=raw / pushed if pushed else 1.0,
                advantage=self.config.advantage,
            )
            self.architectures[key] = choice.architecture
            if choice.architecture == "all_reduce":
                values[...] = self._variables[key].whole()
                del self._variables[key]

    def _next_search(self) -> None:
        """Begins the search for the next partitioner with a variable on the servers."""
        self._searched += 1
        while self._searched < len(self._partitioners) and self.config.partitions is None:
            keys = self._keys()
            if keys:
                most = min(len(self.parameters[key]) for key in keys)
                self.searches.append(PartitionSearch(len(self.machines.chiefs), most))
                self.repartition(keys, self.searches[-1].partitions)
                return
            self._searched += 1
        self.settled = True

    def _keys(self) -> list[str]:
        """Variables of the present partitioner."""
        return [key for key in self._partitioners[self._searched] if key in self._variables]

    def _sample(self, seconds: float) -> None:
        self._times.append(seconds)
        if len(self._times) < self.config.warm_up + self.config.sampled:
            return
        mean = float(np.mean(self._times[self.config.warm_up :]))
        self._times = []
        search = self.searches[-1]
        search.add(max(self.transport.exchange(mean)))
        self.repartition(self._keys(), search.partitions)
        if search.done:
            self._next_search()
