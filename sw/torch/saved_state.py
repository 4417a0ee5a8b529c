# SPDX-License-Identifier: BSD-2-Clause
"""Checks of the entries of saved states, and the state of a `CompressState`. Older ones are read, too."""

from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from .. import wire
from ..codec import MAX_SCALE, Codec
from ..collectives.agreement import MOST
from ..collectives.values.deflated import Deflated
from ..collectives.values.stream_codec import StreamCodec
from ..system.text import brief


@dataclass(frozen=True)
class SavedState:
    """A state's step, number of parameters, residuals and usual scales by parameter, and assigned codec."""

    step: int
    parameters: int
    residuals: dict[int, Any]
    scales: dict[int, int]
    codec: Codec | Deflated | None

    @classmethod
    def read(cls, state: Any) -> "SavedState":
        """Read a state. ``ValueError`` names what is wrong with it."""
        found = entries("the state", state, {"step", "codec", "residuals"}, {"parameters", "scales"})
        step, count = whole("step", found["step"]), whole("parameters", found.get("parameters", 0))
        if not isinstance(found["residuals"], Mapping):
            raise ValueError(f"the residuals must be a dictionary, not {brief(found['residuals'])}")
        residuals = {
            whole("a residual's number", number): array(f"the residual of parameter {number}", values)
            for number, values in found["residuals"].items()
        }
        codec = None if found["codec"] is None else _codec(found["codec"])
        return cls(step, count, residuals, _scales(found.get("scales", {})), codec)

    def as_dict(self) -> dict[str, Any]:
        """Return the state with only tensors, numbers and text."""
        codec: dict[str, Any] | None = None
        if self.codec is not None:
            inner = inner_of(self.codec)
            codec = {name: getattr(inner, name) for name in ("error_bound", "codec", "mode")}
            codec |= {} if inner is self.codec else {"deflated": True}
        return {
            "step": self.step,
            "parameters": self.parameters,
            "codec": codec,
            "residuals": {
                number: torch.from_numpy(values.copy()) for number, values in self.residuals.items()
            },
            "scales": self.scales,
        }


def inner_of(codec: StreamCodec | None) -> StreamCodec | None:
    """Return the codec whose streams are deflated, or else the codec itself."""
    return codec.codec if isinstance(codec, Deflated) else codec


def entries(name: str, value: Any, keys: Set[str], more: Set[str] = frozenset()) -> dict[str, Any]:
    """Return a part of a saved state. ``ValueError`` unless it has all ``keys``, and perhaps ``more``."""
    if not isinstance(value, Mapping):
        raise ValueError(f"{name} must be a dictionary, not {brief(value)}")
    if missing := keys - value.keys():
        raise ValueError(f"{name} has no {min(missing)!r}")
    if unknown := value.keys() - keys - more:
        raise ValueError(f"{name} has an unknown key: {brief(unknown.pop())}")
    return dict(value)


def whole(name: str, value: Any) -> int:
    """Return a number of a saved state that counts something. ``ValueError`` for anything else."""
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or not 0 <= value < MOST:
        raise ValueError(f"{name} must be a whole number of 0..2**62 - 1, not {brief(value)}")
    return int(value)


def _scales(saved: Any) -> dict[int, int]:
    """Return the usual scales of a saved state. Older states have none."""
    if not isinstance(saved, Mapping):
        raise ValueError(f"the scales must be a dictionary, not {brief(saved)}")
    return {whole("a scale's number", number): a_scale(scale) for number, scale in saved.items()}


def a_scale(value: Any) -> int:
    """Return a usual scale of a saved state. ``ValueError`` for anything else."""
    if type(value) is not int or abs(value) > MAX_SCALE:
        raise ValueError(f"a scale must be -{MAX_SCALE}..{MAX_SCALE}, not {brief(value)}")
    return value


def _codec(saved: Any) -> Codec | Deflated:
    """Make the codec of a saved state. Older states have no ``codec``, and "planes" as a mode."""
    found = entries("its codec", saved, {"error_bound", "mode"}, {"codec", "deflated"})
    bound, codec, mode = found["error_bound"], found.get("codec"), found["mode"]
    if not isinstance(bound, int | float) or any(not isinstance(name, str | None) for name in (codec, mode)):
        raise ValueError(f"the state's codec must be a bound and names, not {brief(found)}")
    if not isinstance(deflated := found.get("deflated", False), bool):
        raise ValueError(f"deflated must be True or False, not {brief(deflated)}")
    known = wire.variant(next((name for name in (mode, codec) if name is not None), ""))
    if codec not in (None, known.codec):
        raise ValueError(f"the state's codec {brief(codec)} has no mode {brief(mode)}")
    try:
        made = Codec(bound, *known)
    except (TypeError, OverflowError) as error:
        raise ValueError(f"the state's codec: {error}") from None
    return Deflated(made) if deflated else made


def array(name: str, values: Any) -> Any:
    """Return a float32 tensor of a saved state as an array, whose values are not checked.

    ``ValueError`` for anything else.
    """
    if not isinstance(values, torch.Tensor):
        raise ValueError(f"{name} must be a tensor, not {brief(values)}")
    if values.dtype != torch.float32:
        raise ValueError(f"{name} must be float32, not {values.dtype}")
    try:
        return values.detach().resolve_neg().cpu().numpy()
    except (RuntimeError, TypeError) as error:  # sparse, without data, ...
        raise ValueError(f"{name} must be a plain tensor: {error}") from None
