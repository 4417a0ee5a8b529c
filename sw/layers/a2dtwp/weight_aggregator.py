# SPDX-License-Identifier: BSD-2-Clause
"""A2DTWP between hosts (its Fig. 1): workers send gradients to an aggregator, which returns weights."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ... import CodecName
from ...collectives import (
    Compressed,
    Parts,
    Raw,
    Scale,
    StreamCodec,
    WireForm,
    aggregate,
    agree,
    check_scale,
    counting,
    moving_data,
    one_aggregator,
    watch,
    with_scale,
)
from ...transport import transport_of
from ..checks import Policy, check_policy
from ..fields import Fields
from ..parameter_server import MomentumSGD, Optimizer, Partition
from ..parameter_server.optimizer import state_in
from ..parameters import Floats, Parameters, copy_of, shapes_of
from ..step_agreement import agree_on_step
from ..traffic import Traffic
from .encoding import AdtCodec, Precision


class WeightAggregator:
    """Worker-aggregator training. Rank 0 keeps the full weights and also computes gradients.

    `step` takes this rank's gradients and returns the updated weights in each layer's format, equal at all
    ranks. The aggregator also computes with these truncated weights, like the GPUs of the paper, but updates
    the full ones.

    Parameters
    ----------
    comm
        A `Transport`, or an mpi4py communicator.
    parameters
        Initial weights by key, float32. All ranks need the same shapes; the values are rank 0's.
    optimizer
        Rank 0's optimizer, which gets the mean gradient; by default `MomentumSGD`.
    precision
        `AWP` or `Oracle`, with the same settings at all ranks; rank 0's decides. None sends weights raw.
    codec
        Codec for gradients on their way to rank 0; raw if None.
    scale
        Base-2 logarithm of the factor by which gradients are multiplied in transit, for an
        `inceptionn.Codec`. "auto" chooses it per message; None keeps the bound absolute.
    nonfinite
        "raise", or "skip", which leaves a worker out of a step's mean if its gradients are not finite.

    Raises `MismatchError` at every rank if they differ in keys, shapes or settings. ``traffic`` has the
    classes "gradients" and "weights".
    """

    def __init__(
        self,
        comm: Any,
        parameters: Mapping[str, Floats],
        optimizer: Optimizer | None = None,
        *,
        precision: Precision | None = None,
        codec: StreamCodec | CodecName | None = None,
        scale: Scale = "auto",
        nonfinite: Policy = "raise",
    ) -> None:
        self.transport = transport_of(comm)
        self.precision, self.nonfinite = precision, nonfinite
        self.codec: StreamCodec | None = None
        self.optimizer = MomentumSGD() if optimizer is None else optimizer
        self.traffic = Traffic()
        self.steps = 0
        error: Exception | None = None
        terms = {
            "shapes": [[key, list(shape)] for key, shape in shapes_of(parameters).items()],
            "optimizer": repr(self.optimizer),
            "precision": None if precision is None else precision.name,
            "nonfinite": nonfinite,
        }
        try:
            check_policy(nonfinite)
            check_scale(scale)
            self.codec = None if codec is None else with_scale(codec, scale)
            terms["codec"] = None if self.codec is None else self.codec.name
        except (TypeError, ValueError) as problem:
            error = problem
        for key, values in parameters.items():
            if values.dtype != np.float32:
                error = TypeError(f"key {key!r} must be a float32 array, not {values.dtype}")
        agree(self.transport, terms, None, error)
        self._terms = terms
        self.weights: Parameters = {key: np.array(value, np.float32) for key, value in parameters.items()}
        """The full weights at rank 0; the initial ones elsewhere."""
        self._partitions = {
            key: Partition(number, key, 0, 0, value.size)
            for number, (key, value) in enumerate(self.weights.items())
        }
        alone = [(key,) for key in self.weights]
        self._groups = alone if precision is None else precision.groups(self.weights)

    def step(self, gradients: Mapping[str, Floats]) -> Parameters:
        """Run one step and return the weights, the same bits at all ranks.

        Keys that share a format move together. `agree_on_step` has the errors for gradients that do not fit
        or are not finite.
        """
        transport = self.transport
        terms = agree_on_step(transport, shapes_of(self.weights), gradients, self.steps, self.nonfinite)
        found: Parameters = {}
        with moving_data(transport):
            for keys in self._groups:
                own = np.concatenate([gradients[key].reshape(-1) for key in keys])
                if not terms.takes_part:
                    own[:] = 0
                lanes = self._layer(keys, own, terms.workers)
                for key, part in self._parts(keys, lanes):
                    found[key] = part.reshape(self.weights[key].shape)
        self.steps += 1
        return {key: found[key] for key in self.weights}

    def state_dict(self) -> dict[str, Any]:
        """Copy the state that later steps depend on, for a checkpoint. Only rank 0's has the weights."""
        state: dict[str, Any] = {
            "settings": {n: repr(v) for n, v in self._terms.items()},
            "steps": self.steps,
        }
        if self.transport.rank:
            return state
        return {
            **state,
            "weights": copy_of(self.weights),
            "optimizer": {
                name: array
                for partition in self._partitions.values()
                for name, array in self.optimizer.partition_state(partition).items()
            },
            "precision": None if self.precision is None else self.precision.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resume from a `state_dict` of this rank, with the same bits as an uninterrupted run. Collective.

        If a rank's state has other settings or wrong content, that rank raises ``ValueError`` naming the
        field, and the others raise `MismatchError`. Nothing is changed then.
        """
        error: Exception | None = None
        kept = self.optimizer.state_dict()
        before = None if self.precision is None else self.precision.state_dict()
        weights, steps = self.weights, 0
        try:
            names = () if self.transport.rank else ("weights", "optimizer", "precision")
            fields = Fields(state, ("settings", "steps", *names))
            settings, steps = fields.within("settings", self._terms), fields.integer("steps")
            for name, value in self._terms.items():
                settings.same(name, repr(value))
            if names:
                weights = fields.arrays("weights", shapes_of(self.weights))
                momenta = state_in(fields, "optimizer", self.optimizer, self._partitions.values())
                if self.precision is None:
                    fields.same("precision", None)
                else:
                    with fields.naming("precision") as precision:
                        self.precision.load_state_dict(precision)
                with fields.naming("optimizer"):
                    self.optimizer.load_state_dict(momenta)
        except ValueError as problem:
            error = problem
        try:
            agree(self.transport, {"steps": steps}, None, error)
        except BaseException:
            self.optimizer.load_state_dict(kept)
            if self.precision is not None:
                self.precision.load_state_dict(before)
            raise
        self.weights, self.steps = weights, steps

    def _parts(self, keys: Sequence[str], values: Floats) -> Iterator[tuple[str, Floats]]:
        """Yield each key with its part of the concatenated values."""
        ends = np.cumsum([self.weights[key].size for key in keys])
        return zip(keys, np.split(values, ends[:-1]), strict=True)

    def _layer(self, keys: Sequence[str], source: Floats, workers: int) -> Floats:
        transport = self.transport
        lanes = np.empty(source.size, np.float32)
        adt = AdtCodec()
        up: WireForm = Raw(transport) if self.codec is None else Compressed(transport, self.codec)
        down: WireForm = Raw(transport) if self.precision is None else Compressed(transport, adt)
        # One sub-block per layer, since its format depends on all of its weights.
        parts = Parts(source.size, 1, source.size + 16)
        before = transport.bytes_sent
        if self.codec is not None and transport.rank:
            watch(transport)(f"key {keys[0]!r}", self.codec, source)
        elif self.codec is not None and transport.size > 1 and self.codec.sums_in_double:
            up.settle(source)  # as what arrives: exact sums do not depend on who aggregates

        def update(total: Floats) -> None:
            for key, part in self._parts(keys, total):
                master = self.weights[key].reshape(-1)
                if workers:
                    part *= np.float32(1.0 / workers)
                    self.optimizer.update(self._partitions[key], master, part, self.steps)
                if self.precision is not None:
                    self.precision.observe(key, master)
                part[:] = master
            if self.precision is not None:
                adt.round_to = self.precision.round_to(keys[0])

        place = one_aggregator(range(transport.size), transport.rank)
        path = "off" if self.codec is None and self.precision is None else "software"
        with counting("A2DTWP", path, source.size, up, down):
            aggregate(up, down, place, source, lanes, parts, update)
        raw = source.nbytes
        if transport.rank:
            self.traffic.count("gradients", transport.bytes_sent - before, raw)
        else:
            self.traffic.count("weights", transport.bytes_sent - before, raw * (transport.size - 1))
            if transport.size == 1 and self.precision is not None:
                down.settle(lanes)
        return lanes
