# SPDX-License-Identifier: BSD-2-Clause
"""`get_runner`, which trains a model written for one worker on all ranks (Sec. 4)."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, NoReturn

import numpy as np

from ... import crc32
from ...collectives import (
    Op,
    WireForm,
    agree,
    allreduce_comp,
    check_codec,
    choose_path,
    counting,
    exchanged,
    moving_data,
    watch,
    wire_form,
    with_scale,
)
from ...transport import transport_of
from ..checks import NonFiniteGradient, float32_array
from ..parameter_server import Optimizer, Partition
from ..parameters import Floats, Gradients, Parameters, RowSparse
from ..traffic import Traffic
from .config import ParallaxConfig, Partitioner
from .exchange.all_gather import all_gather_sum
from .exchange.row_sets import Rows
from .exchange.served_variables import ServedVariables
from .exchange.sparse_exchange import Machines, machines_of
from .trainable import Trainable
from .transfer_model import model_alpha
from .tuning import Tuning


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
    """Make a runner for ``model``. Collective: all ranks call it with the same settings.

    Parameters
    ----------
    model
        See `Trainable`.
    comm
        A `Transport` or an mpi4py communicator, with one rank per worker.
    optimizer
        Function that makes an optimizer. It is called for the dense variables and for each sparse variable's
        server.
    config
        `ParallaxConfig`.
    partitioners
        Variables whose number of partitions is searched for. They must be sparse.
    machine
        Name of this rank's machine, by default the host name. The lowest rank of a machine holds its server.
    seed
        Seed of ``model.initial``, equal at all ranks.

    Raises `MismatchError` at every rank if settings, keys, shapes or initial values differ. If a
    rank's arguments are wrong, the others raise `MismatchError` and that rank its own error: ``ValueError``
    for a partitioner's key that the model does not have, or ``TypeError`` for a parameter that is not
    float32.
    """
    settings = config or ParallaxConfig()
    return Runner(model, transport_of(comm), optimizer, settings, partitioners, machine, seed)


class Runner:
    """Trains in step with all ranks. `get_runner` makes it.

    Attributes: ``parameters``, this worker's replica (see `gathered`: of sparse variables, only the rows of
    the last batch are up to date); ``alphas``, by key of the sparse variables; ``architectures``, by key;
    ``searches``, a `PartitionSearch` per partitioner; ``step``, the number of steps done; ``traffic``, with
    the classes "dense", "rows", "values" and "gradients" between machines, and "local" within one;
    ``settled``, whether alphas and partitions are known.

    A step takes one all-reduce of the dense variables, and a pull and a push of each sparse one. Each change
    of the number of partitions resets the servers' optimizers.
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
        self.traffic = Traffic()
        self.step = 0
        self._dense = optimizer()
        self._whole = {
            key: Partition(number, key, 0, 0, np.size(value))
            for number, (key, value) in enumerate(self.parameters.items())
        }
        self._partitioners = [list(p.keys) for p in partitioners]
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
        self._served = ServedVariables(
            transport, self.machines, optimizer, self._form, self.traffic, lambda: self.step
        )
        self._tuning = Tuning(
            config, self.parameters, self._served, self._partitioners, self.traffic, self._sent
        )
        self.alphas, self.architectures = self._tuning.alphas, self._tuning.architectures
        self.searches = self._tuning.searches

    def _terms(self) -> dict[str, Any]:
        codec = self.config.codec
        return {name: repr(value) for name, value in vars(self.config).items()} | {
            "codec": None if codec is None else check_codec(codec).name,
            "partitioners": self._partitioners,
            "keys": list(self.parameters),
            **{f"shape of key {key!r}": list(np.shape(value)) for key, value in self.parameters.items()},
        }

    def _machines(self, name: str | None) -> Machines:
        if self.config.local_aggregation:
            return machines_of(self.transport, name or socket.gethostname())
        return Machines(tuple(range(self.transport.size)))

    def _form(self) -> WireForm:
        """Return the form in which gradients of sparse variables are sent."""
        return wire_form(self.transport, self._path, self._codec)

    @property
    def settled(self) -> bool:
        """True if alphas and partitions are known."""
        return self._tuning.settled

    def run(self, batch: Any) -> float:
        """Run one training step on this worker's batch, and return its loss. Collective.

        The first steps also measure alpha and search for partitions; they train like all others. A rank with
        a gradient that is not finite raises `NonFiniteGradient`, and the others raise `PeerLost` with the
        same text. A rank whose gradients have other keys, shapes or types than the variables raises
        ``ValueError`` likewise.
        """
        start = time.perf_counter()
        rows = self.model.rows(batch)
        with moving_data(self.transport):
            self._pull(rows)
        loss, gradients = self.model.loss_and_gradients(self.parameters, batch)
        sparse = self._tuning.sparse if self.step else None
        if problem := _misfit(gradients, self.parameters, sparse):
            self._fail(ValueError(f"step {self.step}: {problem}"))
        with moving_data(self.transport):
            if self.step == 0:
                # The types of the gradients tell which variables are sparse (Sec. 5).
                found = [key for key, gradient in gradients.items() if isinstance(gradient, RowSparse)]
                agree(self.transport, {"sparse variables": found}, None, None)
                self._tuning.begin(found)
                self._pull(rows)  # the values are the same, but a push must follow a pull
            if self._finite(gradients):
                self._exchange(gradients, rows)
            self.step += 1
            if not self.settled:
                self._tuning.after_step(self.step, time.perf_counter() - start)
        return loss

    def gathered(self) -> Parameters:
        """Return all complete variables, at every rank, for evaluation and checkpoints. Collective."""
        with moving_data(self.transport):
            return {
                key: self._served[key].whole() if key in self._served else value
                for key, value in self.parameters.items()
            }

    def repartition(self, keys: Iterable[str], partitions: int) -> None:
        """Divide the servers' variables among ``keys`` into this number of partitions. Collective.

        Resets their optimizers. Raises ``ValueError`` for more partitions than rows.
        """
        with moving_data(self.transport):
            self._served.repartition(keys, partitions)

    @property
    def model_alpha(self) -> float:
        """``alpha_model`` of Sec. 2.2. Dense variables count with alpha = 1."""
        alphas = {key: self.alphas.get(key, 1.0) for key in self.parameters}
        return model_alpha(alphas, {key: value.size for key, value in self.parameters.items()})

    def partitions(self, key: str) -> int:
        """Return the number of partitions of a variable. 0 if the servers do not hold it."""
        return self._served.partitions(key)

    def _pull(self, rows: Mapping[str, Rows]) -> None:
        for key, variable in self._served.items():
            if key not in rows:
                self._fail(
                    ValueError(f"step {self.step}: the model names no rows of the sparse variable {key!r}")
                )
            mine = self.parameters[key]
            values = rows[key].size * (mine.size // max(1, len(mine)))
            with counting(f"Parallax, pull of {key}", "off", values, *variable.forms):
                mine[rows[key]] = variable.pull(rows[key])

    # One step's gradients.

    def _exchange(self, gradients: Gradients, rows: Mapping[str, Rows]) -> None:
        config, size = self.config, self.transport.size
        dense: dict[str, Floats] = {}
        for key, gradient in gradients.items():
            if isinstance(gradient, RowSparse):
                self._tuning.count(key, rows[key], gradient)
            if isinstance(gradient, RowSparse) and self._path != "off" and config.strategy != "dense":
                watch(self.transport)(f"key {key!r}", self._codec, gradient.values)
            if not isinstance(gradient, RowSparse):
                dense[key] = gradient
            elif key in self._served:
                factor = np.float32(1 / size if config.sparse_op is Op.MEAN else 1)
                aligned = self._aligned(key, gradient, rows[key]) * factor
                with counting(f"Parallax, push of {key}", self._path, aligned.size, *self._served[key].forms):
                    self._served[key].push(aligned)
            elif config.strategy == "all_gather":
                form = self._form()
                with counting(f"Parallax, {key}", self._path, gradient.values.size, form):
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
                if (config.sparse_op if key in self._tuning.sparse else config.dense_op) is op
            }
            self._all_reduce(chosen, op)

    def _all_reduce(self, gradients: dict[str, Floats], op: Op) -> None:
        """Reduce all dense gradients as one vector, which makes fewer messages and full blocks."""
        if not gradients:
            return
        flat = np.concatenate([np.asarray(value, np.float32).reshape(-1) for value in gradients.values()])
        self.traffic.count("dense", self._reduced(flat, op))
        start = 0
        for key, value in gradients.items():
            mean = flat[start : start + value.size].reshape(value.shape)
            self._dense.update(self._whole[key], self.parameters[key], mean, self.step)
            start += value.size

    def _reduced(self, flat: Floats, op: Op) -> int:
        """All-reduce an array in place; return the bytes that this rank sent."""
        before, config = self.transport.bytes_sent, self.config
        allreduce_comp(
            self.transport, None, flat, op, codec=config.codec, path=config.path, scale=config.scale
        )
        return self.transport.bytes_sent - before

    def _sent(self, gradient: Floats) -> int:
        """Return the bytes that this rank sends for a sparse variable's gradient in an all-reduce."""
        sent = self._reduced(np.ascontiguousarray(gradient).reshape(-1), self.config.sparse_op)
        self.traffic.count("trial", sent)
        return sent

    def _aligned(self, key: str, gradient: RowSparse, rows: Rows) -> Floats:
        """Return the gradient's values for exactly the pulled rows."""
        if np.array_equal(gradient.rows, rows):
            return gradient.values
        places = np.searchsorted(rows, gradient.rows)
        if gradient.rows.size and (places[-1] >= rows.size or (rows[places] != gradient.rows).any()):
            self._fail(
                ValueError(
                    f"step {self.step}: the gradient of {key!r} has rows that the batch did not look up"
                )
            )
        values = np.zeros((rows.size, *gradient.shape[1:]), np.float32)
        values[places] = gradient.values
        return values

    def _finite(self, gradients: Gradients) -> bool:
        """Decide whether to take the step, by `ParallaxConfig.non_finite`."""
        wrong = [key for key, gradient in gradients.items() if not np.isfinite(_values_of(gradient)).all()]
        if self.config.non_finite == "raise":
            if wrong:
                self._fail(NonFiniteGradient(wrong[0], self.step))
            return True
        return not any(exchanged(self.transport, bool(wrong), lambda answer: isinstance(answer, bool)))

    def _fail(self, error: Exception) -> NoReturn:
        """Raise the error here and, by the transport, at all other ranks."""
        self.transport.abort(str(error))
        raise error


def _misfit(
    gradients: Gradients, parameters: Mapping[str, Floats], sparse: Collection[str] | None = None
) -> str:
    """Return what is wrong with a step's gradients, naming the key, or "" if they fit. O(keys).

    ``sparse`` are the keys whose gradients were `RowSparse` in the first step. It is None in that step.
    """
    for key, variable in parameters.items():
        if key not in gradients:
            return f"there is no gradient of {key!r}"
        gradient = gradients[key]
        values = _values_of(gradient)
        is_array = isinstance(values, np.ndarray)
        if not is_array or values.dtype != np.float32 or tuple(gradient.shape) != variable.shape:
            found = f"{values.dtype} of {gradient.shape}" if is_array else type(gradient).__name__
            return f"the gradient of {key!r} must be float32 of {variable.shape}, not {found}"
        if sparse is not None and isinstance(gradient, RowSparse) != (key in sparse):
            was, found = ("sparse", "dense") if key in sparse else ("dense", "sparse")
            return f"the gradient of {key!r} was {was} in step 0, but is now {found}"
    if unknown := [key for key in gradients if key not in parameters]:
        return f"there is no variable {unknown[0]!r}"
    return ""


def _values_of(gradient: Any) -> Floats:
    """Return the values of a gradient. For a sparse one, those of its rows."""
    values: Floats = gradient.values if isinstance(gradient, RowSparse) else gradient
    return values
