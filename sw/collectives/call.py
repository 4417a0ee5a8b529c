# SPDX-License-Identifier: BSD-2-Clause
"""The steps of every collective call: prepare, agree, scale, move data, store."""

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from time import perf_counter
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..codec import converted
from ..codec.scaling import Scaling
from ..codec.stream_codec import values_in
from ..system.text import brief
from ..transport import Transport
from .agreement import (
    agree,
    are_sizes,
    check_fits,
    check_sizes,
    choose_path,
    common_scaling,
    effective,
    is_relative,
    largest_exponent,
    mean_square,
    moving_data,
    rms_scaling,
)
from .error_feedback import ErrorFeedback, KeptOnDemand
from .ledger import ledger_of
from .settings import ALGORITHMS, Checked, Op, Path, Settings, SumScale
from .values.buffers import Buffers, Loaded
from .values.fed import Fed
from .values.lost_energy import Loss, watch
from .values.stream_codec import StreamCodec
from .values.wire_form import Spent, Tagged, WireForm, wire_form

Lanes = NDArray[np.float32]
Feedback = tuple[ErrorFeedback, Hashable] | None
AllLargest = Sequence[Sequence[int | None] | None]
"""The largest exponents of each rank's sections."""
B = TypeVar("B", bound=Buffers)


@dataclass(frozen=True)
class Collective:
    """The properties of a collective that matter before its data move.

    ``summed`` means that values of several ranks are added, so all use one scale that leaves room for the
    sum. Otherwise each rank's values have their own scale. ``contributes`` tells whether this rank has
    values. ``terms`` must be equal at all ranks.
    """

    name: str
    summed: bool = True
    algorithms: Sequence[str] = ALGORITHMS
    contributes: bool = True
    terms: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Call:
    """A call on which all ranks have agreed, with its values as they are to be moved.

    ``scalings`` holds that of each rank's lanes, none where the codec scales. ``exact``: own values are on
    the codec's lattice, or come there as they are sent. ``bound``: the codec's, over a scale that follows the
    values; else None.
    """

    settings: Settings
    form: WireForm
    source: Lanes
    lanes: Lanes
    scalings: list[Scaling]
    exact: bool = False
    bound: float | None = None

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

    def unscale(self, lanes: Lanes, of: int = 0, start: int = 0, terms: int | None = None) -> None:
        """Undo the scaling of rank ``of`` in complete lanes, and divide a mean by ``terms`` (default: ranks).

        ``start`` is the place of ``lanes`` among all lanes of that rank.

        A mean is divided here, after the last compression: before it, the codec would round the quotient at
        a bound that leaves room for the sum. Every rank multiplies the same sum by the same factor, so all
        get the same bits.
        """
        if lanes.dtype != np.float32:  # multiplied as they were restored
            return
        self.scalings[of].divide(lanes, start)
        count = terms or self.transport.size
        if self.settings.op is Op.MEAN and count > 1:
            np.multiply(lanes, np.float32(1 / count), out=lanes)


def run(
    transport: Transport,
    collective: Collective,
    settings: Settings,
    buffers_of: Callable[[], B],
    move: Callable[[Call, B], None],
    feedback: Feedback = None,
) -> None:
    """Agree with all ranks on settings, terms and scale; call ``move``; store and count its result.

    ``buffers_of`` checks the buffers. An error there, in settings or in ``feedback`` is raised at every rank
    (as `MismatchError` at the others), before any data move. ``move`` works on scaled lanes and removes the
    scale at the end. (For a sum of one scale in software, a codec that can scales its streams.) An error in
    it is raised at every rank. The residual of ``feedback`` changes only after the agreement.
    """
    start, sent = perf_counter(), transport.bytes_sent
    try:
        prepared = _prepare(transport, collective, settings, buffers_of, feedback)
    except Exception as problem:  # the other ranks wait for the agreement
        agree(transport, {"collective": collective.name, **collective.terms}, None, problem, are_sizes)
        raise
    agreed = _agree(prepared)
    # A rank that fails from here on ends the wait of the others, also if its warnings are errors.
    with moving_data(transport):
        loss = _loss(agreed)
        call = _scale(agreed)
        move(call, prepared.buffers)
    _store(agreed, call)
    ledger_of(transport).add(
        collective.name, prepared.path, call.lanes.size, transport.bytes_sent - sent,
        None if prepared.scale is None else agreed.scaling.common, loss.dropped if loss else None,
        perf_counter() - start, agreed.seconds, call.form.spent,
    )  # fmt: skip


@dataclass(frozen=True)
class _Prepared(Generic[B]):
    """A rank's checked arguments and loaded values, as they are before the agreement.

    ``values`` are its own ones plus the residuals of ``feedback``, in sections of ``lengths``.
    ``largest`` has the largest exponent of each section. It is None without a scale, and at a rank that
    contributes no values. ``square`` is the mean square for scale "rms".
    """

    transport: Transport
    collective: Collective
    checked: Checked
    path: Path
    codec: StreamCodec
    buffers: B
    loaded: Loaded
    feedback: Feedback
    values: Lanes | Fed
    lengths: list[int]
    scale: SumScale
    largest: list[int | None] | None
    square: float | None


def _prepare(
    transport: Transport, collective: Collective, settings: Settings, buffers_of: Callable[[], B],
    feedback: Feedback,
) -> _Prepared[B]:  # fmt: skip
    """Check a rank's arguments, load its values, and find the largest exponents for the common scale."""
    checked = settings.check(transport.size, tuple(collective.algorithms))
    _check_feedback(feedback)
    if settings.scale in ("tensor", "rms") and not collective.summed:
        raise ValueError(f"scale {settings.scale!r} is for sums, not for {collective.name}")
    path, codec = choose_path(transport, settings.path, checked.codec)
    buffers = buffers_of()
    direct = path == "software" and codec.scales_streams and settings.takes_halves
    loaded = buffers.load(direct and collective.summed and transport.size > 1, settings.makes_sums)
    given = loaded.source[loaded.own]
    lengths = checked.lengths(given.size)
    used = None if path == "off" or not collective.contributes else feedback
    values = given if used is None else used[0].fed(given, used[1])
    scale = effective(settings.scale, path, codec)
    largest, square = None, None
    if scale is not None and collective.contributes:
        parts = zip(lengths, accumulate(lengths), strict=True)
        largest = [largest_exponent(values[end - length : end], codec) for length, end in parts]
        if isinstance(scale, int):
            check_fits(values, scale)
        elif scale == "rms":
            square = mean_square(given)  # without residuals: as large as steps, they would keep them up
    return _Prepared(
        transport, collective, checked, path, codec, buffers, loaded, used, values, lengths, scale, largest,
        square,
    )  # fmt: skip


def _check_feedback(feedback: Any) -> None:
    """Raise ``TypeError`` for anything but None, or an `ErrorFeedback` and a name that can be a key."""
    match feedback:
        case None:
            return
        case [ErrorFeedback(), name]:
            hash(name)
        case _:
            raise TypeError(f"feedback must be an ErrorFeedback and a name, not {brief(feedback)}")


@dataclass(frozen=True)
class _Agreed(Generic[B]):
    """A prepared call, the scaling of each rank's lanes, and the time that the agreement took.

    ``leads``: this rank has the largest values of all.
    """

    prepared: _Prepared[B]
    scalings: list[Scaling]
    leads: bool
    seconds: float

    @property
    def scaling(self) -> Scaling:
        """That of this rank's lanes."""
        return self.scalings[self.prepared.transport.rank]


def _agree(prepared: _Prepared[B]) -> _Agreed[B]:
    """Agree with all ranks on the terms, and on a common scale for a sum; else each rank has its own."""
    begun = perf_counter()
    collective, transport, scale = prepared.collective, prepared.transport, prepared.scale
    stated = prepared.checked.terms() | prepared.buffers.terms()
    terms = {"collective": collective.name, **collective.terms, **stated}
    sizes = prepared.largest if prepared.square is None else [*(prepared.largest or ()), prepared.square]
    found = agree(transport, terms, sizes, None, are_sizes)
    seconds = perf_counter() - begun
    check_sizes(found, len(prepared.lengths) if scale is not None else 0, int(scale == "rms"))
    with moving_data(transport):
        if scale == "rms":
            scalings = [rms_scaling(found, prepared.codec.absolute_bound, transport.size)] * transport.size
            found = [None if each is None else each[:1] for each in found]
        elif collective.summed:
            common = common_scaling(scale, found, prepared.lengths, transport.size)
            scalings = [common] * transport.size
        else:
            scalings = [common_scaling(scale, [each], [1], 1) for each in found]
    return _Agreed(prepared, scalings, _most([prepared.largest]) == _most(found), seconds)


def _most(largest: AllLargest) -> int | None:
    """Return the largest exponent of some ranks."""
    return max((e for each in largest for e in each or () if e is not None), default=None)


def _loss(agreed: _Agreed[B]) -> Loss | None:
    """Watch what compression drops of a rank's values; return None where it compresses none."""
    prepared = agreed.prepared
    transport, collective = prepared.transport, prepared.collective
    if prepared.path == "off" or transport.size == 1 or not collective.contributes:
        return None
    relative, fed_back = is_relative(prepared.scale), prepared.feedback is not None
    return watch(transport)(
        f"the {collective.name}", prepared.codec, prepared.values, agreed.scaling,
        sums=collective.summed, auto=relative, feedback=fed_back,
        # A relative scale follows all ranks' largest values; those of this rank may be much smaller. And with
        # scale "rms", feedback is meant to keep most of the energy for later steps.
        quiet=relative and collective.summed and (not agreed.leads or (fed_back and prepared.scale == "rms")),
    )  # fmt: skip


def _scale(agreed: _Agreed[B]) -> Call:
    """Quantise and scale a rank's values as agreed, and choose the form in which they travel."""
    begun = perf_counter()
    prepared, settings = agreed.prepared, agreed.prepared.checked.settings
    transport, path, contributes = prepared.transport, prepared.path, prepared.collective.contributes
    lanes, place, fed_back = prepared.loaded.lanes, prepared.loaded.own, prepared.feedback is not None
    sums = prepared.collective.summed and path != "off"
    exact = sums and prepared.codec.sums_exactly
    given = np.dtype(np.float32) if fed_back else prepared.loaded.source.dtype
    codec, scalings = _summing(agreed, given) if sums else (prepared.codec, agreed.scalings)
    mean_of_halves = lanes.dtype != np.float32 and settings.op is Op.MEAN
    form = wire_form(transport, path, codec, 1 / transport.size if mean_of_halves else None)
    kept: Any = prepared.loaded.source
    if fed_back:
        kept = _kept(agreed, scalings[transport.rank], form.spent)
    scaled = _multiplied(kept, lanes, place, scalings[transport.rank]) if contributes else kept
    first = exact and contributes and transport.size > 1 and settings.quantises_first(path)
    if first and not fed_back:  # after scaling: unscaled, the largest would become infinite
        own = lanes[place]
        values_in(own, codec, codec.lossy(scaled[place], own), "lossy")
    source = lanes if first and not fed_back else scaled
    form.spent.codec += perf_counter() - begun
    bound = prepared.codec.absolute_bound if is_relative(prepared.scale) else None
    return Call(settings, form, source, lanes, scalings, exact, bound)


def _kept(agreed: _Agreed[B], of_lanes: Scaling, spent: Spent) -> Lanes | KeptOnDemand:
    """Return what the codec keeps of a rank's own values and their residual. ``feedback`` has the rest.

    It is in the result's array, or where that has 16-bit values in a new one of float32. A rank without
    others sends nothing, so it keeps all of them, and no residual is left. For a ring in software each part
    is made when the ring asks for it. Other algorithms need the whole array at once, and so does a scaling
    that is multiplied into the lanes, ``of_lanes``.
    """
    prepared, lanes = agreed.prepared, agreed.prepared.loaded.lanes
    assert prepared.feedback is not None
    assert isinstance(prepared.values, Fed)
    memory, name = prepared.feedback
    whole = lanes if lanes.dtype == np.float32 else np.empty(lanes.size, np.float32)
    into = whole[prepared.loaded.own]
    if prepared.transport.size == 1:
        memory.returned(prepared.values, name, into)
        return whole
    in_ring = prepared.path == "software" and prepared.checked.settings.algorithm == "ring"
    if in_ring and not any(of_lanes.scales):
        source = memory.on_demand(prepared.values, name, prepared.codec, agreed.scaling, into, spent)
        if source is not None:
            return source
    memory.kept(prepared.values, name, prepared.codec, agreed.scaling, into)
    return whole


def _summing(agreed: _Agreed[B], source: np.dtype[Any]) -> tuple[StreamCodec, list[Scaling]]:
    """Return a codec's form for sums, and by rank the scaling that is left to the lanes.

    Partial sums that are stored in memory keep a scale with which they are exact, but without which they
    could leave fp32's range.
    """
    codec, lanes, scalings = agreed.prepared.codec, agreed.prepared.loaded.lanes, agreed.scalings
    common, bound = scalings[0].common, codec.absolute_bound
    stored = lanes.dtype == np.float32
    leaves = stored and common is not None and bound is not None and common <= math.log2(bound) - 104
    in_streams = agreed.prepared.path == "software" and codec.scales_streams
    if in_streams and common is not None and not (codec.sums_exactly and leaves):
        patterns = np.uint16 in (source, lanes.dtype)
        return codec.summing(common, "bfloat16" if patterns else None), [Scaling()] * len(scalings)
    return codec.summing(), scalings


def _multiplied(source: Lanes, lanes: Lanes, place: slice, scaling: Scaling) -> Lanes:
    """Return the array with a rank's scaled values: ``lanes``, unless nothing is to be scaled."""
    if not any(scaling.scales):
        return source
    values, into = source[place], lanes[place]
    if values.dtype == np.float32:
        scaling.multiply(values, into)
    else:
        scaling.multiply(converted(values, out=into, patterns=True), into)
    return lanes


def _store(agreed: _Agreed[B], call: Call) -> None:
    """Store the result, and finish the call of the error feedback."""
    agreed.prepared.buffers.store(call.lanes)
    if agreed.prepared.feedback is not None:
        memory, name = agreed.prepared.feedback
        memory.finish(name, agreed.scaling, call.lanes)
