# SPDX-License-Identifier: BSD-2-Clause
"""The steps of every collective call: agree, scale, move data, scale back, store."""

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from time import perf_counter
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..codec import Codec, converted, largest_magnitude
from ..codec.scaling import Scaling
from ..system.text import brief
from ..transport import Transport
from .agreement import (
    agree,
    are_exponents,
    choose_path,
    common_scaling,
    effective,
    is_relative,
    largest_exponent,
    moving_data,
)
from .error_feedback import ErrorFeedback
from .ledger import ledger_of
from .settings import ALGORITHMS, Op, Path, Settings, SumScale
from .values.buffers import Buffers, Loaded
from .values.fed import Fed
from .values.lost_energy import Loss, watch
from .values.stream_codec import StreamCodec
from .values.wire_form import Tagged, WireForm, wire_form

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
    values.
    """

    name: str
    summed: bool = True
    algorithms: Sequence[str] = ALGORITHMS
    contributes: bool = True


@dataclass(frozen=True)
class Call:
    """A call on which all ranks have agreed.

    ``scalings`` holds that of each rank's lanes, none where the codec scales. ``exact``: own values are on
    the codec's lattice, or come there as they are sent.
    """

    settings: Settings
    form: WireForm
    source: Lanes
    lanes: Lanes
    scalings: list[Scaling]
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

    ``buffers_of`` checks the buffers. An error there, in settings or in ``feedback`` is raised at every rank
    (as `MismatchError` at the others), before any data move. ``move`` works on scaled lanes and removes the
    scale at the end. (For a sum of one scale with a `Codec` in software, streams are scaled.) An error in it
    is raised at every rank. The residual of ``feedback`` changes only after the agreement.
    """
    start, sent = perf_counter(), transport.bytes_sent
    own: _Own[B] | None = None
    error: Exception | None = None
    try:
        own = _prepared(transport, collective, settings, buffers_of, feedback)
        terms |= own.terms
    except Exception as problem:  # the other ranks wait for the agreement
        error = problem
    ready = perf_counter()
    agreed = {"collective": collective.name, **terms}
    all_largest = agree(transport, agreed, None if own is None else own.largest, error, are_exponents)
    assert own is not None
    agreeing = perf_counter() - ready
    # A rank that fails from here on ends the wait of the others, also if its warnings are errors.
    with moving_data(transport):
        scalings = _scalings(collective.summed, own.scale, all_largest, own.lengths)
        scaling = scalings[transport.rank]
        loss = _loss(transport, collective, own, scaling, all_largest)
        call = _begun(transport, collective, settings, own, scalings)
        move(call, own.buffers)
    own.buffers.store(call.lanes)
    if own.feedback is not None:
        memory, name = own.feedback
        memory.settle(name, scaling, call.lanes)
    ledger_of(transport).add(
        collective.name, own.path, call.lanes.size, transport.bytes_sent - sent,
        None if own.scale is None else scaling.common, loss.dropped if loss else None,
        perf_counter() - start, agreeing, call.form.spent,
    )  # fmt: skip


@dataclass(frozen=True)
class _Own(Generic[B]):
    """A rank's checked arguments and loaded values, as they are before the agreement.

    ``values`` are its own ones plus the residuals of ``feedback``, in sections of ``lengths``.
    ``largest`` has the largest exponent of each section. It is None without a scale, and at a rank that
    contributes no values. ``terms`` must be equal at all ranks.
    """

    terms: dict[str, Any]
    path: Path
    codec: StreamCodec
    buffers: B
    loaded: Loaded
    feedback: Feedback
    values: Lanes | Fed
    lengths: list[int]
    scale: SumScale
    largest: list[int | None] | None


def _prepared(
    transport: Transport, collective: Collective, settings: Settings, buffers_of: Callable[[], B],
    feedback: Feedback,
) -> _Own[B]:  # fmt: skip
    """Check a rank's arguments, load its values, and find the largest exponents for the common scale."""
    settings.check(transport.size, tuple(collective.algorithms))
    _check_feedback(feedback)
    if settings.sections is not None and not collective.summed:
        raise ValueError(f"scale 'tensor' is for sums: a {collective.name} has none")
    path, codec = choose_path(transport, settings.path, settings.codec)
    buffers = buffers_of()
    direct = path == "software" and isinstance(codec, Codec) and settings.takes_halves
    loaded = buffers.load(direct and collective.summed and transport.size > 1, settings.makes_sums)
    own = loaded.source[loaded.own]
    lengths = settings.lengths(own.size)
    if path == "off" or not collective.contributes:
        feedback = None
    values = own if feedback is None else feedback[0].fed(own, feedback[1])
    scale = effective(settings.scale, path, codec)
    largest = None
    if scale is not None and collective.contributes:
        parts = zip(lengths, accumulate(lengths), strict=True)
        largest = [largest_exponent(values[end - length : end], codec) for length, end in parts]
        _check_scale(scale, values, largest)
    terms = settings.terms() | buffers.terms()
    return _Own(terms, path, codec, buffers, loaded, feedback, values, lengths, scale, largest)


def _check_scale(scale: SumScale, values: Lanes | Fed, largest: Sequence[int | None]) -> None:
    """Raise ``OverflowError`` if this rank's values leave fp32's range with a given scale."""
    if not isinstance(scale, int) or max((e for e in largest if e is not None), default=0) + scale < 127:
        return
    found = values.largest() if isinstance(values, Fed) else largest_magnitude(values, dtype="bfloat16")
    if math.ldexp(found, scale) >= 2.0**128:
        raise OverflowError(f"a value of {found:.3g} is too large to be scaled by 2**{scale}")


def _loss(
    transport: Transport, collective: Collective, own: _Own[B], scaling: Scaling, all_largest: AllLargest
) -> Loss | None:
    """Watch what compression drops of a rank's values; return None where it compresses none."""
    if own.path == "off" or transport.size == 1 or not collective.contributes:
        return None
    relative = is_relative(own.scale)
    # A relative scale follows all ranks' largest values; those of this rank may be much smaller.
    quiet = relative and collective.summed and _most([own.largest]) != _most(all_largest)
    return watch(transport)(
        f"the {collective.name}", own.codec, own.values, scaling,
        sums=collective.summed, auto=relative, feedback=own.feedback is not None, quiet=quiet,
    )  # fmt: skip


def _begun(
    transport: Transport, collective: Collective, settings: Settings, own: _Own[B], scalings: list[Scaling]
) -> Call:
    """Quantise and scale a rank's values as agreed, and choose the form in which they travel."""
    size, path, codec = transport.size, own.path, own.codec
    source, lanes, place = own.loaded.source, own.loaded.lanes, own.loaded.own
    values, scaling = source[place], scalings[transport.rank]
    sums = collective.summed and path != "off"
    exact = sums and isinstance(codec, Codec) and codec.sums_exactly
    first = exact and collective.contributes and size > 1 and settings.quantises_first(path)
    coding = perf_counter()
    if isinstance(own.values, Fed):
        values, source = _kept(own.values, lanes, place, codec, scaling, own.feedback)
    if sums:
        patterns, in_memory = np.uint16 in (source.dtype, lanes.dtype), lanes.dtype == np.float32
        codec, scalings = _summing(codec, path, scalings, patterns, in_memory)
        scaling = scalings[transport.rank]
    if any(scaling.scales) and collective.contributes:
        if values.dtype != np.float32:
            values = converted(values, out=lanes[place], patterns=True)
        scaling.multiply(values, lanes[place])
        values, source = lanes[place], lanes
    if first and own.feedback is None:  # after scaling: unscaled, the largest would become infinite
        codec.lossy(values, lanes[place])
        source = lanes
    coding = perf_counter() - coding
    halves = lanes.dtype != np.float32
    form = wire_form(transport, path, codec, 1 / size if halves and settings.op is Op.MEAN else None)
    form.spent.codec += coding
    return Call(settings, form, source, lanes, scalings, exact)


def _check_feedback(feedback: Any) -> None:
    """Raise ``TypeError`` for anything but None, or an `ErrorFeedback` and a name that can be a key."""
    match feedback:
        case None:
            return
        case [ErrorFeedback(), name]:
            hash(name)
        case _:
            raise TypeError(f"feedback must be an ErrorFeedback and a name, not {brief(feedback)}")


def _scalings(
    summed: bool, scale: SumScale, all_largest: AllLargest, lengths: Sequence[int]
) -> list[Scaling]:
    """Return the scaling of each rank's lanes: a common one for a sum, else its own."""
    if summed:
        ranks = len(all_largest)
        return [common_scaling(scale, all_largest, lengths, ranks)] * ranks
    return [common_scaling(scale, [each], [1], 1) for each in all_largest]


def _most(largest: AllLargest) -> int | None:
    """Return the largest exponent of some ranks."""
    return max((e for each in largest for e in each or () if e is not None), default=None)


def _summing(
    codec: StreamCodec, path: Path, scalings: list[Scaling], patterns: bool, in_memory: bool
) -> tuple[StreamCodec, list[Scaling]]:
    """Return a codec's form for sums, and by rank the scaling that is left to the lanes.

    ``patterns``: whether uint16 arrays are bfloat16. ``in_memory``: whether partial sums are stored. They
    keep a scale with which they are exact, but without which they could leave fp32's range.
    """
    if not isinstance(codec, Codec):
        return codec, scalings
    common = scalings[0].common
    leaves = in_memory and common is not None and common <= math.log2(codec.error_bound) - 104
    if path == "software" and common is not None and not (codec.sums_exactly and leaves):
        return codec.summing(common, "bfloat16" if patterns else None), [Scaling()] * len(scalings)
    return codec.summing(), scalings


def _kept(
    values: Fed, lanes: Lanes, own: slice, codec: Any, scaling: Scaling, feedback: Feedback
) -> tuple[Lanes, Lanes]:
    """Return what the codec keeps of a rank's own values and their residual, and the array with it.

    That is ``lanes``, or where they are 16-bit values a new one of float32. ``feedback`` has the rest.
    """
    assert feedback is not None
    memory, name = feedback
    whole = lanes if lanes.dtype == np.float32 else np.empty(lanes.size, np.float32)
    return memory.kept(values, name, codec, scaling, whole[own]), whole
