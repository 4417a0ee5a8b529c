# SPDX-License-Identifier: BSD-2-Clause
"""Error feedback: the part that compression removed from one gradient is added to the next one.

Seide et al. (Interspeech 2014) and Karimireddy et al. (ICML 2019): truncation mostly loses values that are
too small to be sent. Accumulated, they are sent once they are large enough. The paper does not use it.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..codec import array_of, largest_magnitude
from ..codec.scaling import Scaling
from ..codec.stream_codec import StreamCodec, values_in
from ..transport.mpi import transport_of
from ..wire import CodecName
from .agreement import check_fits, common_scale, exchanged, is_exponent, largest_exponent
from .settings import Scale, check_scale
from .values.fed import Fed
from .values.finite import all_finite
from .values.stream_codec import check_codec
from .values.wire_form import Spent

__all__ = ["ErrorFeedback"]

Floats = NDArray[np.float32]

_JUMP = 32
"""How many times as large residuals become limited, with a codec that has no bound."""
_LARGE_STEP = 2.0**104
"""Steps from which on the nearest multiple of a value may be infinite."""


class KeptOnDemand:
    """What a codec keeps of flat values and their residual: each part is made once, when it is asked for.

    So it is still in the processor's cache when it is compressed, and transfers go on meanwhile. ``residual``
    becomes the rest, limited to ``most`` if that is given. ``out`` may be the memory of the values. ``spent``
    counts the time.
    """

    def __init__(
        self, values: NDArray[Any], residual: Floats, decay: float, codec: StreamCodec, out: Floats,
        most: np.float32 | None, spent: Spent,
    ) -> None:  # fmt: skip
        self._values, self._residual, self._decay, self._codec = values, residual, decay, codec
        self._out, self._most, self._spent = out, most, spent

    def __getitem__(self, where: slice) -> Floats:
        """Make and return the values of a part."""
        start = perf_counter()
        left, room = self._residual[where], self._out[where]
        found = self._codec.feed_back(self._values[where], left, room, decay=self._decay)
        values_in(room, self._codec, found, "feed_back")
        if self._most is not None:
            np.clip(left, -self._most, self._most, out=left)
        self._spent.codec += perf_counter() - start
        return room


class ErrorFeedback:
    """This rank's residuals, one per tensor.

    `allreduce_comp(..., feedback=(feedback, name))` applies it automatically. Alternatively, call it on a
    gradient before every all-reduce and send the result, which the codec does not change again.

    With ``planes`` the residuals of all ranks are all that compression takes from the sums: later
    compressions keep partial sums as they are (`Codec.summing`). With other codecs the errors of a ring's
    later compressions are not fed back. Roundings of fp32, and of a result to 16 bits, are in no residual.

    Two things are left out of this, so that a step that the program skips or clips does not come back in the
    next one. A residual is dropped in an all-reduce whose result is not finite, at every rank. And a spike
    leaves no more than ordinary values: ``usual`` has the usual scales of each tensor, which follow the
    calls' by a factor of two a call. Where a call's step is 2^(k/2) times the usual one or more (bound 2^-k),
    and at least 8 times, residuals are limited to half the usual step. With a codec that has no bound,
    residuals that become 32 times as large are limited to twice the last ones.

    Parameters
    ----------
    codec
        The codec that the all-reduce will use; ``scale`` must be that of the all-reduce, too.
    decay
        Factor applied to the residual, 0..1; below 1, old errors fade. ``ValueError`` otherwise.
    comm
        The ranks of the all-reduce, which agree on its scale: a `Transport` or an mpi4py communicator.
    """

    def __init__(self, codec: StreamCodec | CodecName, decay: float = 1.0, *, comm: Any = None) -> None:
        if not 0 <= decay <= 1:
            raise ValueError(f"decay must be 0..1, not {decay!r}")
        self.codec = check_codec(codec)
        self.decay = decay
        self.comm = comm
        self._residuals: dict[Hashable, Floats] = {}
        self.usual: dict[Hashable, Scaling] = {}

    @staticmethod
    def local_exponent(ranks: int) -> int:
        """Return k of the bound 2^-k for local updates: 5 up to two ranks, then at most 1 / (16 ranks).

        Half a step of planes is then at most 1/16 of the power of two next to the largest value of any rank.
        """
        return min(14, max(5, 4 + (ranks - 1).bit_length()))

    def __call__(
        self, gradient: Floats, name: Hashable = "", *, scale: Scale = "auto", out: Floats | None = None
    ) -> Floats:
        """Return the part of gradient plus residual that the codec keeps. The rest is the new residual.

        ``name`` tells tensors apart. ``scale`` is that of the all-reduce. With "auto" the ranks of ``comm``
        agree on it, so all of them must call this for the same tensors in the same order. ``out``, of the
        gradient's shape, may be the gradient itself. Values that are not finite leave no residual; if the
        ranks' sum is not finite, or the step is skipped, `reset` drops what the others have left. Raises
        ``TypeError`` unless gradient and ``out`` are float32, ``ValueError`` if the shape of ``name`` has
        changed or that of ``out`` is another, for "auto" without ``comm``, or another scale, such as
        "tensor": call this for each tensor. Nothing has changed then.
        """
        if scale == "auto" and self.comm is None:
            raise ValueError("scale 'auto' needs the ranks that share it: ErrorFeedback(codec, comm=...)")
        if not isinstance(gradient, np.ndarray):
            raise TypeError(
                f"the gradient must be a float32 array, not {type(gradient)!r}{array_of(gradient)}"
            )
        if gradient.dtype != np.float32:
            raise TypeError(f"the gradient must be float32, not {gradient.dtype}")
        if out is not None and out.dtype != np.float32:
            raise TypeError(f"out must be float32, not {out.dtype}")
        if out is not None and out.shape != gradient.shape:
            raise ValueError(f"out has the shape {out.shape}, the gradient {gradient.shape}")
        fed = self.fed(gradient, name)
        common = self._common_scale(scale, fed)
        if scale != "auto":
            check_fits(fed, common)  # here, since nothing may change then
        direct = out is None or out.flags.c_contiguous
        scaling = Scaling((common,))
        kept = self.kept(fed, name, self.codec, scaling, out if direct else None)
        if all_finite(kept):
            self._learn(name, scaling, kept)
        if out is None or direct:
            return kept
        np.copyto(out, kept)
        return out

    def fed(self, gradient: NDArray[Any], name: Hashable = "") -> Fed:
        """Return a gradient of a type that `Fed` takes, and its residual, for `kept`. No residual changes.

        Raises ``ValueError`` if the shape of ``name`` has changed.
        """
        residual = self._residuals.get(name)
        if residual is not None and residual.shape != gradient.shape:
            raise ValueError(f"{name!r} had the shape {residual.shape}, now {gradient.shape}")
        return Fed(np.asarray(gradient, order="C"), residual, self.decay)

    def kept(
        self, fed: Fed, name: Hashable, codec: StreamCodec, scaling: Scaling, out: Floats | None = None
    ) -> Floats:
        """Return what a codec keeps of a gradient and its residual, scaled so. The rest is the new residual.

        ``out`` is C-contiguous float32 memory of its shape for the result, and may be the gradient's.
        """
        residual = np.zeros(fed.own.shape, np.float32) if fed.residual is None else fed.residual
        kept = np.empty(fed.own.shape, np.float32) if out is None else out
        values, left, into = (x.reshape(-1) for x in (fed.own, residual, kept))
        patterns = "bfloat16" if values.dtype == np.uint16 else None
        bound, before = codec.absolute_bound, largest_magnitude(left) if codec.absolute_bound is None else 0.0
        for where, scale in scaling.pieces(values.size):
            step = 0.0 if bound is None else math.ldexp(bound, 1 - scale)
            may_leave = codec.sums_exactly and step >= _LARGE_STEP
            wanted = Fed(values, left, fed.decay)[where].added() if may_leave else None
            at_scale, room = codec.summing(scale, patterns), into[where]
            found = at_scale.feed_back(values[where], left[where], room, decay=fed.decay)
            values_in(room, at_scale, found, "feed_back")
            if wanted is not None:
                _keep_finite(wanted, left[where], into[where], step)
        if bound is None:
            _limit_growth(left, before)
        else:
            self._limit(left, bound, scaling, self.usual.get(name, scaling))
        self._residuals[name] = residual
        return kept

    def returned(self, fed: Fed, name: Hashable, out: Floats) -> None:
        """Write a gradient and its whole residual to ``out``. Nothing is left."""
        np.copyto(out.reshape(-1), fed.added().reshape(-1))
        self._residuals[name] = np.zeros(fed.own.shape, np.float32)

    def on_demand(
        self, fed: Fed, name: Hashable, codec: StreamCodec, scaling: Scaling, out: Floats, spent: Spent
    ) -> KeptOnDemand | None:
        """Return what `kept` does as a source of a ring, which makes each part as it is sent or added.

        If the ring fails, only a part of the residual is new. None where that is not possible: with several
        scales, a codec without a bound, or steps next to the largest values of fp32.
        """
        usual, bound = self.usual.get(name, scaling).common, codec.absolute_bound
        scale = scaling.common
        if bound is None or scale is None or usual is None or math.ldexp(bound, 1 - scale) >= _LARGE_STEP:
            return None
        residual = np.zeros(fed.own.shape, np.float32) if fed.residual is None else fed.residual
        self._residuals[name] = residual
        values, left = fed.own.reshape(-1), residual.reshape(-1)
        at_scale = codec.summing(scale, "bfloat16" if values.dtype == np.uint16 else None)
        most = _most_left(bound, scale, usual)
        return KeptOnDemand(values, left, fed.decay, at_scale, out, most, spent)

    def _limit(self, left: Floats, bound: float, scaling: Scaling, usual: Scaling) -> None:
        """Limit flat residuals to what the usual scale leaves, where this one is coarser by far."""
        if scaling == usual:
            return
        places, now, before = scaling.beside(usual, left.size)
        for place, scale, usually in zip(places, now.tolist(), before.tolist(), strict=True):
            if (most := _most_left(bound, scale, usually)) is not None:
                np.clip(left[place], -most, most, out=left[place])

    def finish(self, name: Hashable, scaling: Scaling, result: NDArray[Any]) -> None:
        """Finish the call of `kept`: learn its scale, or drop the residual if its result is not finite.

        ``result`` has the values that the program gets. It is the same at all ranks, and so is what they do.
        """
        if all_finite(result):
            self._learn(name, scaling, result)
        else:
            self._residuals[name][...] = 0

    def _learn(self, name: Hashable, scaling: Scaling, result: NDArray[Any]) -> None:
        """Move the usual scale of each section by at most one towards that of a call."""
        usual = self.usual.setdefault(name, scaling)
        if usual == scaling:
            return
        flat = result.reshape(-1)
        places, now, before = scaling.beside(usual, flat.size)
        moved = np.clip(now, before - 1, before + 1)
        for which in np.flatnonzero((now == 0) & (before != 0)):  # zeros have no scale
            if not flat[places[which]].any():
                moved[which] = before[which]
        lengths = [each.stop - each.start for each in places]
        self.usual[name] = Scaling.of(moved.tolist(), lengths)

    def _common_scale(self, scale: Scale, fed: Fed) -> int:
        """Return the scale that `allreduce_comp` will use for what the codec keeps of these values."""
        if check_scale(scale) != "auto":
            return int(scale or 0)
        if self.codec.absolute_bound is None:
            return 0
        transport = transport_of(self.comm)
        largest = exchanged(transport, largest_exponent(fed, self.codec), is_exponent)
        return common_scale(scale, largest, transport.size)

    def residual(self, name: Hashable = "") -> Floats:
        """Copy a tensor's residual, float32 in its shape. Raises ``KeyError`` for one that was never seen."""
        return self._residuals[name].copy()

    def reset(self) -> None:
        """Forget all residuals and usual scales, such as after a step that was not applied."""
        self._residuals.clear()
        self.usual.clear()

    def state_dict(self) -> dict[Hashable, Floats]:
        """Copy all residuals by name, for a checkpoint."""
        return {name: residual.copy() for name, residual in self._residuals.items()}

    def load_state_dict(self, state: Mapping[Hashable, Floats]) -> None:
        """Replace all residuals by copies of a checkpoint's.

        ``ValueError``, with the tensor's name, if a residual is not a finite float32 array. Nothing is
        changed then.
        """
        for name, residual in state.items():
            if not isinstance(residual, np.ndarray) or residual.dtype != np.float32:
                what = getattr(residual, "dtype", type(residual).__name__)
                raise ValueError(f"the residual of {name!r} must be a float32 array, not {what}")
            if not np.isfinite(residual).all():
                raise ValueError(f"the residual of {name!r} has values that are not finite")
        self._residuals = {name: np.array(residual, order="C") for name, residual in state.items()}
        self.usual.clear()


def _most_left(bound: float, scale: int, usual: int) -> np.float32 | None:
    """Return the limit of residuals, half a usual step; None unless a scale is coarser by far."""
    far = min(bound, 2.0**-6) * 4.0 ** (usual - scale) >= 1  # 8 times, also with coarser bounds than 2^-6
    return np.float32(bound * 2.0**-usual) if far else None


def _keep_finite(wanted: Floats, left: Floats, kept: Floats, step: float) -> None:
    """Keep the last multiple of a step below 2^128 of finite values that have been rounded to it.

    As infinity they would make the sum infinite or NaN, where that of the values is finite.
    """
    beyond = np.isinf(kept) & np.isfinite(wanted)
    kept[beyond] = np.copysign(np.float32(2.0**128 - step), wanted[beyond])
    left[beyond] = wanted[beyond] - kept[beyond]


def _limit_growth(left: Floats, before: float) -> None:
    """Limit the rest of a codec without a bound to twice the largest one before, if it is larger by far."""
    if largest_magnitude(left) > _JUMP * before > 0:
        most = np.float32(2 * before)
        np.clip(left, -most, most, out=left)
