# SPDX-License-Identifier: BSD-2-Clause
"""The agreement of all ranks before the first float is sent."""

import json
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..codec import MAX_SCALE, Codec, converted, largest_magnitude
from ..codec.scaling import MOST_SECTIONS, Scaling
from ..system.text import LONGEST, brief, printable
from ..transport import Transport, TransportError
from ..transport.base import name_of
from ..transport.probe import alike
from ..wire import EXPONENT_BIAS, CodecName
from .settings import Path, SumScale
from .values.fed import Fed
from .values.stream_codec import StreamCodec, check_codec
from .values.wire_form import MalformedStream

DEFAULT = Codec(codec="planes")
"""The codec of a collective that names none, where no NIC has another."""
_VERSION = 4
"""The version of the terms; ranks with different versions cannot work together."""
EXPONENTS = range(-MAX_SCALE, MAX_SCALE + 1)
"""The range of a rank's largest exponent."""
MOST = 1 << 62
"""The largest count of bytes or values, or number of seconds, of a rank; its double is an int64."""
_PIECE = 1 << 13
"""Values whose squares are summed at a time."""
_SAFE = 1e-25
"""A larger sum of squares loses nothing in float32. A smaller one may consist of subnormal squares."""
_OF_RMS = 2.8**2
"""Scale "rms" brings the root of so many mean squares to 1."""
_EXACT = 24
"""The exponent of the most steps of an exact sum, 2^24."""
_FIRST = ("version", "collective")
"""The terms that are compared before all others."""


class MismatchError(ValueError):
    """Ranks called a collective with arguments that do not match, or one rank used invalid ones.

    It is raised at every rank, before any data has been sent. The transport can still be used.
    """


def agree(
    transport: Transport,
    terms: dict[str, Any],
    value: Any,
    error: Exception | None,
    valid: Callable[[Any], bool] = lambda value: value is None,
) -> list[Any]:
    """Return all ranks' ``value``, if all have the same ``terms`` and no rank has an ``error``.

    Otherwise every rank raises: its own error if it has one, else `MismatchError`. The latter names the first
    term that differs, two ranks and both values. Ranks exchange a digest of the terms, and the terms
    themselves only if digests differ. What a rank sends is checked: `MismatchError` names a rank whose answer
    has another form, or a value that is not ``valid``.
    """
    stated = {"version": _VERSION, **terms}
    wrong = None if error is None else f"{type(error).__name__}: {error}"
    answers = transport.exchange([_digest(stated), value, wrong])
    if error is not None:
        raise error
    for rank, answer in enumerate(answers):
        match answer:
            case [str(), theirs, None] if valid(theirs):
                pass
            case [str(), _, str(problem)]:
                raise MismatchError(f"rank {rank} cannot take part: {printable(problem[:LONGEST])}")
            case _:
                raise _malformed(rank, answer)
    if len({theirs for theirs, _, _ in answers}) > 1:
        _name_the_difference([theirs for theirs, _, _ in answers], transport.exchange(stated))
    return [theirs for _, theirs, _ in answers]


def exchanged(transport: Transport, value: Any, valid: Callable[[Any], bool]) -> list[Any]:
    """Return all ranks' values, in the order of the ranks, if all are ``valid``. Collective.

    ``value`` is a JSON value, and ``valid`` must work for every such value. Otherwise every rank with the
    same ``valid`` raises `MismatchError`, which names the first rank whose value is not valid.
    """
    answers = transport.exchange(value)
    for rank, answer in enumerate(answers):
        if not valid(answer):
            raise _malformed(rank, answer)
    return answers


def is_exponent(value: Any) -> bool:
    """Tell whether a rank's message is None or a whole number in `EXPONENTS`."""
    return value is None or is_whole(value, EXPONENTS)


def are_exponents(value: Any) -> bool:
    """Tell whether a rank's message is None or the largest exponent of each section."""
    return value is None or (
        isinstance(value, list) and len(value) <= MOST_SECTIONS and all(map(is_exponent, value))
    )


def are_sizes(value: Any) -> bool:
    """Tell whether a rank's message is as `are_exponents` wants it, or an exponent and a mean square."""
    match value:
        case [exponent, float(square)]:
            return is_exponent(exponent) and 0 <= square <= 2.0**256
    return are_exponents(value)


def check_sizes(sizes: Sequence[Any], exponents: int, squares: int) -> None:
    """Raise `MismatchError` for the first rank whose sizes are not so many exponents, then mean squares."""
    for rank, each in enumerate(sizes):
        kinds = [isinstance(size, float) for size in each or ()]
        if each is not None and kinds != [False] * exponents + [True] * squares:
            raise _malformed(rank, each)


def is_whole(value: Any, allowed: range) -> bool:
    """Tell whether a rank's message is a whole number in ``allowed``. True and 1.0 are not."""
    return type(value) is int and value in allowed


def is_amount(value: Any, most: float = MOST) -> bool:
    """Tell whether a rank's message is a number of 0 to ``most``, by default a count of bytes or seconds."""
    return type(value) in (int, float) and 0 <= value <= most


def _malformed(rank: int, value: Any) -> MismatchError:
    return MismatchError(f"rank {rank} sent a malformed agreement: {brief(value)}")


def _digest(terms: dict[str, Any]) -> str:
    return blake2b(json.dumps(terms, sort_keys=True).encode(), digest_size=8).hexdigest()


def _name_the_difference(digests: list[str], all_terms: list[Any]) -> None:
    for rank, theirs in enumerate(all_terms):
        if not isinstance(theirs, dict) or _digest(theirs) != digests[rank]:
            raise MismatchError(
                f"rank {rank} sent a malformed agreement: {brief(theirs)} does not belong to its digest"
            )
    first = all_terms[0]
    for rank, theirs in enumerate(all_terms):
        for word in sorted(first.keys() | theirs.keys(), key=lambda word: (word not in _FIRST, word)):
            # As JSON, as in the digest: in Python, True equals 1, and 1.0 does.
            at_first, there = ({word: terms[word]} if word in terms else {} for terms in (first, theirs))
            if _digest(at_first) != _digest(there):
                raise MismatchError(
                    f"{printable(word[:200])} differs: rank 0 has {_said(at_first)}, "
                    f"rank {rank} has {_said(there)}"
                )


def _said(term: dict[str, Any]) -> str:
    """Return a term's value as text, and that of no term."""
    return "no such term" if not term else brief(*term.values())


@contextmanager
def moving_data(transport: Transport) -> Iterator[None]:
    """Transfer data in this context, after an agreement.

    An error in it also ends the wait of all other ranks, unless an agreement raised it at all of them.
    Malformed data of another rank become a `TransportError` that names the link: see
    `values.wire_form.arriving`.
    """
    try:
        yield
    except (TransportError, MismatchError):
        raise
    except MalformedStream as problem:
        transport.abort(str(problem))
        raise TransportError(str(problem)) from problem
    except BaseException as problem:
        transport.abort(f"{type(problem).__name__}: {problem}")
        raise


def largest_exponent(lanes: NDArray[Any] | Fed, codec: StreamCodec) -> int | None:
    """Return the smallest e, -126..126, with \\|x\\| < 2**e for every finite value; None if those are zero.

    For ``planes``, which may round up to a power of two, the condition is \\|x\\| <= 2**e. Lanes are float32,
    float16, or uint16 with bfloat16 patterns.
    """
    return codec.largest_exponent(_largest(lanes))


@np.errstate(invalid="ignore", over="ignore")  # signalling NaNs become quiet
def mean_square(lanes: NDArray[Any]) -> float:
    """Return the mean square of the finite ones of lanes, as `largest_exponent` takes them; 0 if none is."""
    total, count = 0.0, 0
    for start in range(0, lanes.size, _PIECE):
        piece = lanes[start : start + _PIECE]
        piece = piece if piece.dtype == np.float32 else converted(piece, patterns=True)
        if not _SAFE < (square := float(piece @ piece)) < math.inf:
            piece = piece[np.isfinite(piece)].astype(np.float64)
            square = float(piece @ piece)
        total, count = total + square, count + piece.size
    return total / count if count else 0.0


def check_fits(lanes: NDArray[Any] | Fed, scale: int) -> None:
    """Raise ``OverflowError`` if lanes, as `largest_exponent` takes them, leave fp32's range with a scale."""
    if scale > 0 and math.ldexp(largest := _largest(lanes), scale) >= 2.0**128:
        raise OverflowError(f"a value of {largest:.3g} is too large to be scaled by 2**{scale}")


def _largest(lanes: NDArray[Any] | Fed) -> float:
    return lanes.largest() if isinstance(lanes, Fed) else largest_magnitude(lanes, dtype="bfloat16")


def is_relative(scale: SumScale) -> bool:
    """Tell whether a scale follows the values: "auto" the largest, "tensor" those of each section, "rms"."""
    return isinstance(scale, str)


def effective(scale: SumScale, path: Path, codec: StreamCodec) -> SumScale:
    """Return the scale that a call uses. A relative one is for a codec with an absolute bound."""
    return None if is_relative(scale) and (path == "off" or codec.absolute_bound is None) else scale


def common_scaling(
    scale: SumScale, largest: Sequence[Sequence[int | None] | None], lengths: Sequence[int], ranks: int
) -> Scaling:
    """Return the scaling of all ranks' lanes, of sections of these lengths.

    ``largest`` has the largest exponent of each section by rank, or None for a rank without values. Raises as
    `common_scale`.
    """
    of_ranks = [each for each in largest if each is not None]
    by_section = zip(*of_ranks, strict=True) if of_ranks else ()
    scales = [common_scale(scale, found, ranks) for found in by_section]
    return Scaling.of(scales, lengths) if scales else Scaling()


def common_scale(scale: SumScale, largest: Sequence[int | None], ranks: int) -> int:
    """Return the scale of all ranks' values, from all ranks' largest exponents.

    With a relative scale the sum over all ranks stays below 1, or in ``planes`` at most 1. Raises
    `MismatchError` if a given scale would move values out of fp32's range, ``ValueError`` for "rms", which
    needs more than exponents (`rms_scaling`).
    """
    if scale == "rms":
        raise ValueError("scale 'rms' follows from mean squares, not from the largest exponents")
    known = [exponent for exponent in largest if exponent is not None]
    growth = math.ceil(math.log2(ranks))
    if scale is None or not known:
        return 0
    if isinstance(scale, str):
        return max(-MAX_SCALE, min(MAX_SCALE, -(max(known) + growth)))
    if max(known) + scale + growth > EXPONENT_BIAS:
        raise MismatchError(
            f"a sum of {ranks} values up to 2**{max(known)} would leave fp32's range with scale {scale}"
        )
    return scale


def rms_scaling(sizes: Sequence[Any], bound: float | None, ranks: int) -> Scaling:
    """Return the scaling of all ranks' lanes with scale "rms", from each rank's exponent and mean square.

    It brings the power of two nearest to 2.8 times the root of all ranks' mean to 1, so the step of planes at
    2^-k is 2^(1-k) of it. With an absolute ``bound`` it is coarser if the sum of the largest values would
    have more than 2^24 steps, up to which sums are exact.
    """
    given = [each for each in sizes if each is not None]
    mean = math.fsum(square for _, square in given) / max(1, len(given))
    scale = -(math.frexp(_OF_RMS * mean)[1] // 2)  # to the nearest, and exact: equal at all ranks
    largest = [exponent for exponent, _ in given if exponent is not None]
    if bound is not None and largest:
        most = max(largest) if max(largest) < MAX_SCALE else EXPONENT_BIAS + 1
        growth = math.ceil(math.log2(ranks))
        scale = min(scale, _EXACT + math.frexp(2 * bound)[1] - 1 - growth - most)
    return Scaling((max(-MAX_SCALE, min(MAX_SCALE, scale)),))


def choose_path(
    transport: Transport, path: Path, codec: StreamCodec | CodecName | None
) -> tuple[Path, StreamCodec]:
    """Return the path, which is never "auto", and the codec of the call. Both are equal at all ranks.

    Raises ``ValueError`` if the path is "nic" and there are no NICs, or they are set to another codec,
    and as `check_codec`.
    """
    nics = transport.nic_codec
    given = None if codec is None else check_codec(codec)
    if path == "nic" and nics is None:
        raise ValueError("path 'nic': not every rank has a NIC with the engines")
    if nics is not None and path in ("auto", "nic"):
        if given is None or alike(given, nics):
            return "nic", nics
        if path == "nic":
            raise ValueError(f"path 'nic': the codec is {given.name}, the NICs are set to {name_of(nics)}")
    return ("software" if path == "auto" else path), given or nics or DEFAULT
