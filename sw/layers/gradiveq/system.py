# SPDX-License-Identifier: BSD-2-Clause
"""`GradiVeQ`, the all-reduce of a network's gradients in phases."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ... import CodecName
from ...collectives import (
    SUB_BLOCK,
    Compressed,
    Parts,
    Raw,
    Scale,
    StreamCodec,
    WireForm,
    agree,
    all_reduce_steps,
    allreduce_comp,
    check_codec,
    check_scale,
    counting,
    moving_data,
    ring,
    with_scale,
)
from ...transport import transport_of
from ..checks import Policy, check_policy
from ..parameters import Floats, Parameters, shapes_of
from ..step_agreement import agree_on_step
from ..traffic import Traffic
from .compressed_domain import CompressedDomain, Run
from .compressors import Slices, make_runs
from .pca import check_threshold
from .phases import Phase, Phases
from .qsgd import QSGD
from .slicing import Slicing
from .state import checked, state_of


class GradiVeQ:
    """Compressed all-reduces of gradients. All ranks make one, with the same settings.

    ::

        exchange = GradiVeQ(transport, parameters, threshold=0.01)
        for step in range(steps):
            mean = exchange.all_reduce(model.gradients(parameters, batches.at(step)))

    Convolutions (keys of four dimensions) are compressed. All other keys are sent uncompressed, as in the
    paper (footnote 2). Warm-up steps are raw. Sampling steps are quantised, and the compressors are computed
    from them. In compressed steps the ring carries compressed slices.

    Parameters
    ----------
    comm
        A `Transport`, or an mpi4py communicator.
    parameters
        Arrays by key. Only their shapes are used.
    threshold
        lambda of eq. 6, 0 <= lambda < 1, the share of the sampled slices' variance that may be lost.
    warm_up, sampling, compressed
        Steps of each phase. The paper has 100 sampling and 400 compressed ones. A compressor has fewer
        columns than there are sampling steps.
    loss_limit
        Limit of the local loss (eq. 7, mean of ten steps). A compressed phase ends early if more than half of
        the workers exceed it; with None it never does. The paper does not say what a "large" loss is.
    multiple
        Slice size K in units of F*D. It must divide H*W of every layer.
    reuse
        Number of slices that share a compressor (the paper's s). None means all slices of a layer.
    keys
        The keys to compress. None means all with four dimensions.
    sampling_bits
        QSGD's bits per value in sampling phases. None sends these raw.
    codec
        Codec for the compressed slices, beyond the paper. Each run of slices is scaled so that samples stay
        below 1. The error bound holds for each value and partial sum.
    rest_codec
        Codec for the keys that are not compressed; raw if None.
    scale
        Base-2 logarithm of the factor by which these are multiplied in transit, if their bound is absolute.
        "auto" chooses it per step; None keeps the bound absolute.
    nonfinite
        "raise", or "skip", which leaves a worker out of a step's mean if its gradients are not finite.
    seed
        Seed of the quantiser's random numbers.

    Raises `MismatchError` at every rank if they differ in keys, shapes or settings. If a rank's arguments are
    wrong, it raises its own ``TypeError`` or ``ValueError``, and the others raise `MismatchError`.

    Attributes: ``traffic``, with one class per phase, "rest" and "compressors"; ``phases``; ``step``;
    ``loss``, this worker's in the last compressed step.
    """

    def __init__(
        self,
        comm: Any,
        parameters: Mapping[str, Floats],
        *,
        threshold: float = 0.01,
        warm_up: int = 50,
        sampling: int = 100,
        compressed: int = 400,
        loss_limit: float | None = None,
        multiple: int = 1,
        reuse: int | None = None,
        keys: Sequence[str] | None = None,
        sampling_bits: int | None = 4,
        codec: StreamCodec | CodecName | None = None,
        rest_codec: StreamCodec | CodecName | None = None,
        scale: Scale = "auto",
        nonfinite: Policy = "raise",
        seed: int = 0,
    ) -> None:
        self.transport = transport_of(comm)
        self.threshold, self.nonfinite = threshold, nonfinite
        self.scale = scale
        self.codec: StreamCodec | None = None
        self.rest_codec: StreamCodec | None = None
        self.shapes = shapes_of(parameters)
        self.traffic = Traffic()
        self.step = 0
        self.loss = 0.0
        error: Exception | None = None
        try:
            check_threshold(threshold)
            check_policy(nonfinite)
            check_scale(scale)
            if codec is not None:
                self.codec = check_codec(codec)
            if rest_codec is not None:
                self.rest_codec = check_codec(rest_codec)
            self.phases = Phases(warm_up, sampling, compressed, loss_limit)
            self.quantiser = (
                None if sampling_bits is None else QSGD(sampling_bits, seed=(seed, self.transport.rank))
            )
            chosen = [key for key, shape in self.shapes.items() if len(shape) == 4] if keys is None else keys
            if unknown := [key for key in chosen if key not in self.shapes]:
                raise ValueError(f"there is no key {unknown[0]!r}")
            if not chosen:
                raise ValueError("no key has four dimensions: there is no convolution to compress")
            if reuse is not None and reuse < 1:
                raise ValueError(f"reuse must be at least 1 slice, not {reuse!r}")
            self.slicings = {key: Slicing(key, self.shapes[key], multiple) for key in chosen}
            self.slices = [
                Slices(slicing, first, min(reuse or slicing.count, slicing.count - first))
                for slicing in self.slicings.values()
                for first in range(0, slicing.count, reuse or slicing.count)
            ]
        except (TypeError, ValueError) as problem:
            error = problem
        self.rest = [key for key in self.shapes if error is None and key not in self.slicings]
        self.runs: list[Run] = []
        """The compressors in use, in the order of the keys. Empty before the first compressed phase."""
        terms = {
            "shapes": [[key, list(shape)] for key, shape in self.shapes.items()],
            "keys": None if keys is None else list(keys),
            "steps": [warm_up, sampling, compressed],
            **{"threshold": threshold, "loss_limit": loss_limit, "multiple": multiple, "reuse": reuse},
            "sampling_bits": sampling_bits,
            "codecs": [
                None if self.codec is None else self.codec.name,
                None if self.rest_codec is None else with_scale(self.rest_codec, scale).name,
            ],
            "nonfinite": nonfinite,
        }
        self.settings = {name: repr(value) for name, value in terms.items()}
        agree(self.transport, self.settings, None, error)

    def all_reduce(self, gradients: Mapping[str, Floats]) -> Parameters:
        """Run one step and return the mean of all workers' gradients by key, the same bits at every rank.

        `agree_on_step` has the errors for gradients that do not fit or are not finite. If no worker's
        gradients are finite and ``nonfinite`` is "skip", the mean is zero.
        """
        transport = self.transport
        terms = agree_on_step(transport, self.shapes, gradients, self.step, self.nonfinite, self.phases.vote)
        if not terms.workers:
            self.step += 1
            return {key: np.zeros(shape, np.float32) for key, shape in self.shapes.items()}
        phase, changed = self.phases.begin(terms.votes, transport.size)
        share = 1 / terms.workers if terms.takes_part else 0.0
        with moving_data(transport):
            if phase == "compressed" and changed:
                coded = self.codec is not None
                self.runs = make_runs(transport, self.slices, self.threshold, coded, self.traffic)
            whole = {key: slicing.cut(gradients[key]) for key, slicing in self.slicings.items()}
            own = [whole[s.slicing.key][s.first : s.first + s.count] for s in self.slices]
            if phase == "compressed":
                means = self._compressed(own, share)
            else:
                means = self._sampled(phase, own, share)
            found: Parameters = {}
            for key, slicing in self.slicings.items():
                parts = [m for m, s in zip(means, self.slices, strict=True) if s.slicing.key == key]
                found[key] = slicing.joined(np.concatenate(parts))
            if self.rest:
                values = [np.ravel(gradients[key]) for key in self.rest]
                flat = self._mean("rest", values, share)
                for key, part in zip(self.rest, _split(flat, values), strict=True):
                    found[key] = part.reshape(self.shapes[key])
        self.step += 1
        return {key: found[key] for key in self.shapes}

    def state_dict(self) -> dict[str, Any]:
        """Copy the state that later steps depend on, and the counters, for a checkpoint between two steps.

        It holds this rank's phases, samples, compressors and random numbers. All ranks must save theirs at
        the same step.
        """
        return state_of(self)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resume from a `state_dict` of this rank, with the same bits as an uninterrupted run. Collective.

        If a rank's state has other settings or wrong content, that rank raises ``ValueError`` naming the
        field, and the others raise `MismatchError`. All raise `MismatchError` if their states do not match.
        Nothing is changed then.
        """
        error: Exception | None = None
        terms: dict[str, Any] = {}
        try:
            terms, apply = checked(self, state)
        except ValueError as problem:
            error = problem
        agree(self.transport, terms, None, error)
        apply()

    def _form(self, codec: StreamCodec | None) -> WireForm:
        if codec is None:
            return Raw(self.transport)
        # A run's scale is the same at all ranks, so sums are exact with planes.
        return Compressed(self.transport, codec.summing())

    def _mean(self, kind: str, values: Sequence[Floats], share: float) -> Floats:
        """Return the mean of all workers' concatenated values, by the ring of the collectives."""
        flat = np.concatenate([part.reshape(-1) for part in values])
        if share:
            flat *= np.float32(share)
        else:
            flat[:] = 0  # multiplying by 0 would keep infinities and NaNs
        size, before = self.transport.size, self.transport.bytes_sent
        if kind == "rest" and self.rest_codec is not None:
            allreduce_comp(
                self.transport, None, flat, codec=self.rest_codec, path="software", scale=self.scale
            )
        else:
            form = self._form(self.quantiser if kind == "sampling" else None)
            parts, path = Parts(flat.size, size, SUB_BLOCK), "off" if isinstance(form, Raw) else "software"
            with counting(f"GradiVeQ, {kind}", path, flat.size, form):
                ring(form, range(size), flat, flat, parts, all_reduce_steps(size))
        self._count(kind, before, flat.size)
        return flat

    def _count(self, kind: str, before: int, values: int) -> None:
        """Count the bytes sent since ``before``, and those that a raw ring sends for ``values`` values."""
        size = self.transport.size
        self.traffic.count(kind, self.transport.bytes_sent - before, 8 * values * (size - 1) // size)

    def _sampled(self, phase: Phase, own: Sequence[Floats], share: float) -> list[Floats]:
        """Run a raw step of the warm-up, or a quantised step of a sampling phase."""
        flat = self._mean(phase, own, share)
        means = [part.reshape(slices.shape) for part, slices in zip(_split(flat, own), own, strict=True)]
        if phase == "sampling":
            for sampled, mean in zip(self.slices, means, strict=True):
                sampled.sample(mean)
        return means

    def _compressed(self, own: Sequence[Floats], share: float) -> list[Floats]:
        before = self.transport.bytes_sent
        domain = CompressedDomain(self.runs, own, share, self.phases.limit is not None)
        form, values = self._form(self.codec), sum(slices.size for slices in own)
        with counting("GradiVeQ, compressed", "off" if self.codec is None else "software", values, form):
            domain.reduce(form)
        self._count("compressed", before, values)
        if self.phases.limit is not None:
            self.loss = domain.loss
            self.phases.note(self.loss)
        return domain.sums

    @property
    def dimensions(self) -> dict[str, list[tuple[int, int]]]:
        """The (K, d) of each compressor, by key. Empty before the first compressed phase."""
        found: dict[str, list[tuple[int, int]]] = {}
        for slices, run in zip(self.slices, self.runs, strict=False):
            found.setdefault(slices.slicing.key, []).append((slices.slicing.size, run.compressor.dimension))
        return found


def _split(flat: Floats, like: Sequence[Floats]) -> list[Floats]:
    return np.split(flat, np.cumsum([part.size for part in like])[:-1])
