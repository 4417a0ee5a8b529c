# SPDX-License-Identifier: BSD-2-Clause
"""Error feedback: the part that compression removed from one gradient is added to the next one.

Seide et al. (Interspeech 2014) and Karimireddy et al. (ICML 2019): truncation mostly loses values that are
too small to be sent. Accumulated, they are sent once they are large enough. The paper does not use it.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..codec import Codec

if TYPE_CHECKING:
    from .settings import Scale
    from .values.stream_codec import StreamCodec

__all__ = ["ErrorFeedback"]


class ErrorFeedback:
    """This rank's residuals, one per tensor.

    `allreduce_comp(..., feedback=(feedback, name))` applies it automatically. Alternatively, call it on a
    gradient before every all-reduce and send the result, which the codec does not change again.

    With ``planes`` the residuals of all ranks are all that the sums lack, but for the rounding of fp32: later
    compressions keep partial sums as they are (`Codec.summing`). With other codecs the errors of a ring's
    later compressions are not fed back.

    Parameters
    ----------
    codec
        The codec that the all-reduce will use; ``scale`` must be that of the all-reduce, too.
    decay
        Factor applied to the residual, 0..1; below 1, old errors fade. ``ValueError`` otherwise.
    comm
        The ranks of the all-reduce, which agree on its scale: a `Transport` or an mpi4py communicator.
    """

    def __init__(self, codec: StreamCodec, decay: float = 1.0, *, comm: Any = None) -> None:
        if not 0 <= decay <= 1:
            raise ValueError(f"decay must be 0..1, not {decay!r}")
        self.codec = codec
        self.decay = decay
        self.comm = comm
        self._residuals: dict[Hashable, NDArray[np.float32]] = {}
        self._spare: NDArray[np.float32] | None = None
        """The last residual's memory before: new memory costs page faults."""

    def __call__(
        self,
        gradient: NDArray[np.float32],
        name: Hashable = "",
        *,
        scale: Scale = "auto",
        out: NDArray[np.float32] | None = None,
    ) -> NDArray[np.float32]:
        """Return the part of gradient plus residual that the codec keeps. The rest is the new residual.

        ``name`` tells tensors apart. ``scale`` is that of the all-reduce. With "auto" the ranks of ``comm``
        agree on it, so all of them must call this for the same tensors in the same order. ``out``, of the
        gradient's shape, may be the gradient itself. Values that are not finite leave no residual. Raises
        ``TypeError`` unless the gradient is float32, ``ValueError`` if the shape of ``name`` has changed, or
        for "auto" without ``comm``.
        """
        if scale == "auto" and self.comm is None:
            raise ValueError("scale 'auto' needs the ranks that share it: ErrorFeedback(codec, comm=...)")
        if gradient.dtype != np.float32:
            raise TypeError(f"the gradient must be float32, not {gradient.dtype}")
        wanted = self.added(gradient, name)
        kept = self.kept(wanted, name, self.codec, self._exponent(scale, wanted))
        if out is None:
            return kept
        np.copyto(out, kept)
        return out

    def added(self, gradient: NDArray[np.float32], name: Hashable = "") -> NDArray[np.float32]:
        """Return gradient plus residual, for `kept`, in memory that is not used yet. No residual changes.

        Raises ``ValueError`` if the shape of ``name`` has changed.
        """
        residual = self._residuals.get(name)
        if residual is None:
            return gradient.copy()
        if residual.shape != gradient.shape:
            raise ValueError(f"{name!r} had the shape {residual.shape}, now {gradient.shape}")
        if self.decay == 1:
            spare, self._spare = self._spare, None
            if spare is None or spare.shape != gradient.shape:
                return np.asarray(np.add(residual, gradient, order="C"))
            return np.add(residual, gradient, out=spare)
        wanted = np.asarray(np.multiply(residual, np.float32(self.decay), order="C"))
        wanted += gradient
        return wanted

    def kept(
        self,
        wanted: NDArray[np.float32],
        name: Hashable,
        codec: StreamCodec,
        exponent: int,
        out: NDArray[np.float32] | None = None,
    ) -> NDArray[np.float32]:
        """Return what a codec keeps of `added` values scaled by ``2**exponent``. The rest is the residual.

        ``wanted`` becomes the residual's memory. ``out`` is other memory of its shape, for the result.
        """
        if isinstance(codec, Codec):
            kept = codec.summing(exponent).split(wanted, out)
            self._spare = self._residuals.get(name)
            self._residuals[name] = wanted
            return kept
        if exponent:
            factor = np.float32(2.0**exponent)
            kept = codec.lossy(wanted * factor, out)
            kept /= factor
        else:
            kept = codec.lossy(wanted, out)
        with np.errstate(invalid="ignore", over="ignore"):
            np.subtract(wanted, kept, out=wanted)
            energy = np.dot(wanted.reshape(-1), wanted.reshape(-1))
        if not np.isfinite(energy):  # rare: the sum of the squares is the cheaper look
            wanted[~np.isfinite(wanted)] = 0
        self._residuals[name] = wanted
        return kept

    def _exponent(self, scale: Scale, values: NDArray[np.float32]) -> int:
        """Return the exponent by which `allreduce_comp` will scale what the codec keeps of these values."""
        if scale != "auto":
            return scale or 0
        # Other users of this module do not need the collectives.
        from ..transport.mpi import transport_of
        from .agreement import common_scale, effective, exchanged, is_exponent, largest_exponent

        if effective(scale, "software", self.codec) is None:
            return 0
        transport = transport_of(self.comm)
        largest = exchanged(transport, largest_exponent(values, self.codec), is_exponent)
        return common_scale(scale, largest, transport.size)

    def residual(self, name: Hashable = "") -> NDArray[np.float32]:
        """Copy a tensor's residual, float32 in its shape.

        Raises ``KeyError`` for one that was never seen.
        """
        return self._residuals[name].copy()

    def reset(self) -> None:
        """Forget all residuals."""
        self._residuals.clear()

    def state_dict(self) -> dict[Hashable, NDArray[np.float32]]:
        """Copy all residuals by name, for a checkpoint."""
        return {name: residual.copy() for name, residual in self._residuals.items()}

    def load_state_dict(self, state: Mapping[Hashable, NDArray[np.float32]]) -> None:
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
        self._residuals = {name: np.array(residual) for name, residual in state.items()}
