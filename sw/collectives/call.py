# SPDX-License-Identifier: BSD-2-Clause
"""The steps of every collective call: agree, scale, move data, scale back, store."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..codec import Codec
from ..transport import Transport
from .agreement import agree, choose_path, common_scale, effective, largest_exponent, moving_data
from .error_feedback import ErrorFeedback
from .ledger import ledger_of
from .settings import ALGORITHMS, Op, Path, Scale, Settings
from .values.buffers import Buffers
from .values.lost_energy import watch
from .values.stream_codec import StreamCodec
from .values.wire_form import Tagged, WireForm, wire_form

Lanes = NDArray[np.float32]
Feedback = tuple[ErrorFeedback, Hashable] | None
B = TypeVar("B", bound=Buffers)


@dataclass(frozen=True)
class Collective:
    """The properties of a collective that matter before its data move.

    ``summed`` means that values of several ranks are added, so all use one scale that leaves room for the
    sum. Otherwise each rank's values have their own scale. ``contributes`` tells whether this rank has
    values.
    """

    name: str
    summed: bool = True
    algorithms: Sequence[str] = ALGORITHMS
    contributes: bool = True


@dataclass(frozen=True)
class Call:
    """A call on which all ranks have agreed. ``exponents`` holds the exponent of each rank's scale. It is 0
    where the codec scales. ``exact``: own values are on the codec's lattice, or come there as they are sent.
    """

    settings: Settings
    form: WireForm
    source: Lanes
    lanes: Lanes
    exponents: list[int]
    exact: bool = False

    @property
    def transport(self) -> Transport:
        """The ranks."""
        return self.form.transport

    def settle_sum(self, lanes: Lanes) -> None:
        """Give complete sums that pass no other compression the one NaN of exact sums.

        Codecs do so as they add; sums of floats, which NICs carry, keep a rank's NaN.
        """
        if self.exact and isinstance(self.form, Tagged):
            self.form.settle(lanes)

    def unscale(self, lanes: Lanes, exponent: int = 0, terms: int | None = None) -> None:
        """Divide complete lanes by ``2**exponent``, and those of a mean by ``terms`` (default: the ranks).

        A mean is divided here, after the last compression: before it, the codec would round the quotient at
        a bound that leaves room for the sum. Every rank multiplies the same sum by the same factor, so all
        get the same bits.
        """
        if exponent:
            np.multiply(lanes, np.float32(2.0**-exponent), out=lanes)
        terms = terms or self.transport.size
        if self.settings.op is Op.MEAN and terms > 1:
            np.multiply(lanes, np.float32(1 / terms), out=lanes)


def run(
    transport: Transport,
    collective: Collective,
    settings: Settings,
    buffers_of: Callable[[], B],
    move: Callable[[Call, B], None],
    feedback: Feedback = None,
    **terms: Any,
) -> None:
    """Agree with all ranks on settings, ``terms`` and scale; call ``move``; store and count its result.

    ``buffers_of`` checks the buffers. An error there or in the settings is raised at every rank (as
    `MismatchError` at the others), before any data move. ``move`` works on scaled lanes and removes the scale
    at the end. (For a sum with an `inceptionn.Codec` in software the streams are scaled, and lanes are not.)
    Every rank calls it, and an error in it is raised at every rank. ``feedback`` is error feedback of this
    rank's values, with their name. Its residual changes only after the ranks have agreed.
    """
    size, rank, start, sent = transport.size, transport.rank, perf_counter(), transport.bytes_sent
    error: Exception | None = None
    agreed: dict[str, Any] = {"collective": collective.name, **terms}
    largest = None
    scale: Scale = None
    try:
        settings.check(size, tuple(collective.algorithms))
        agreed |= settings.terms()
        path, codec = choose_path(transport, settings.path, settings.codec)
        buffers = buffers_of()
        agreed |= buffers.terms()
        loaded = buffers.load()
        source, lanes = loaded.source, loaded.lanes
        own = source[loaded.own]
        if path == "off" or not collective.contributes:
            feedback = None
        if feedback is not None:
            own = feedback[0].added(own, feedback[1])
        scale = effective(settings.scale, path, codec)
        if scale is not None and collective.contributes:
            largest = largest_exponent(own, codec)
    except (TypeError, ValueError) as problem:
        error = problem
    ready = perf_counter()
    all_largest = agree(transport, agreed, largest, error)
    agreeing = perf_counter() - ready
    # A rank that fails from here on ends the wait of the others, also if its warnings are errors.
    with moving_data(transport):
        if collective.summed:
            exponents = [common_scale(scale, all_largest, size)] * size
        else:
            exponents = [common_scale(scale, [one], 1) for one in all_largest]
        loss, exponent = None, exponents[rank]
        if path != "off" and size > 1 and collective.contributes:
            # "auto" follows the largest values of all ranks; those of this rank may be much smaller.
            most = max((e for e in all_largest if e is not None), default=None)
            quiet = scale == "auto" and collective.summed and largest != most
            loss = watch(transport)(
                f"the {collective.name}", codec, own, exponent,
                auto=scale == "auto", feedback=feedback is not None, quiet=quiet,
            )  # fmt: skip
        sums = collective.summed and path != "off"
        exact = sums and isinstance(codec, Codec) and codec.sums_exactly
        first = exact and collective.contributes and size > 1 and settings.quantises_first(path)
        coding = perf_counter()
        if feedback is not None or first:
            own, source = _quantised(own, lanes[loaded.own], codec, exponent, feedback), lanes
        coding = perf_counter() - coding
        if sums:
            codec, exponents = _summing(codec, path, exponents)
        if exponents[rank] and collective.contributes:
            np.multiply(own, np.float32(2.0 ** exponents[rank]), out=lanes[loaded.own])
            source = lanes
        form = wire_form(transport, path, codec)
        move(Call(settings, form, source, lanes, exponents, exact), buffers)
    buffers.store(lanes)
    form.spent.codec += coding
    ledger_of(transport).add(
        collective.name, path, lanes.size, transport.bytes_sent - sent,
        None if scale is None else exponent, loss.dropped if loss else None,
        perf_counter() - start, agreeing, form.spent,
    )  # fmt: skip


def _summing(codec: StreamCodec, path: Path, exponents: list[int]) -> tuple[StreamCodec, list[int]]:
    """Return a codec's form for sums, and by rank the scale that is left to the lanes."""
    if not isinstance(codec, Codec):
        return codec, exponents
    if path == "software":
        return codec.summing(exponents[0]), [0] * len(exponents)
    return codec.summing(), exponents


def _quantised(own: Lanes, into: Lanes, codec: Any, exponent: int, feedback: Feedback) -> Lanes:
    """Return what the codec keeps of a rank's own values in a sum, in ``into``; ``feedback`` has the rest."""
    if feedback is None:
        kept: Lanes = codec.summing(exponent).lossy(own, into)
        return kept
    memory, name = feedback
    return memory.kept(own, name, codec, exponent, into)
