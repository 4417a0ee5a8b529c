# SPDX-License-Identifier: BSD-2-Clause
"""The saved state of a `CompressState`: its entries, checked. Older states are read, too."""

from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from .. import wire
from ..codec import MAX_SCALE, Codec
from ..system.text import brief

_MOST = (1 << 63) - 1
"""The largest number of a step."""


@dataclass(frozen=True)
class SavedState:
    """A state's step, number of parameters, residuals and usual scales by parameter, and assigned codec."""

    step: int
    parameters: int
    residuals: dict[int, Any]
    scales: dict[int, int]
    codec: Codec | None

    @classmethod
    def read(cls, state: Any) -> "SavedState":
        """Read a state. ``ValueError`` names what is wrong with it."""
        found = _entries("the state", state, {"step", "codec", "residuals"}, {"parameters", "scales"})
        step, count = _whole("step", found["step"]), _whole("parameters", found.get("parameters", 0))
        if not isinstance(found["residuals"], Mapping):
            raise ValueError(f"the residuals must be a dictionary, not {brief(found['residuals'])}")
        residuals = {
            _whole("a residual's number", number): _array(number, values)
            for number, values in found["residuals"].items()
        }
        codec = None if found["codec"] is None else _codec(found["codec"])
        return cls(step, count, residuals, _scales(found.get("scales", {})), codec)

    def as_dict(self) -> dict[str, Any]:
        """Return the state with only tensors, numbers and text."""
        names, codec = ("error_bound", "codec", "mode"), self.codec
        return {
            "step": self.step,
            "parameters": self.parameters,
            "codec": None if codec is None else {name: getattr(codec, name) for name in names},
            "residuals": {
                number: torch.from_numpy(values.copy()) for number, values in self.residuals.items()
            },
            "scales": self.scales,
        }


def _entries(name: str, value: Any, keys: Set[str], more: Set[str] = frozenset()) -> dict[str, Any]:
    """Return a part of a saved state. ``ValueError`` unless it has all ``keys``, and perhaps ``more``."""
    if not isinstance(value, Mapping):
        raise ValueError(f"{name} must be a dictionary, not {brief(value)}")
    if missing := keys - value.keys():
        raise ValueError(f"{name} has no {min(missing)!r}")
    if unknown := value.keys() - keys - more:
        raise ValueError(f"{name} has an unknown key: {brief(unknown.pop())}")
    return dict(value)


def _whole(name: str, value: Any) -> int:
    """Return a number of a saved state that counts something. ``ValueError`` for anything else."""
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or not 0 <= value <= _MOST:
        raise ValueError(f"{name} must be a whole number of 0..2**63 - 1, not {brief(value)}")
    return int(value)


def _scales(saved: Any) -> dict[int, int]:
    """Return the usual scales of a saved state. Older states have none."""
    if not isinstance(saved, Mapping):
        raise ValueError(f"the scales must be a dictionary, not {brief(saved)}")
    for scale in saved.values():
        if type(scale) is not int or abs(scale) > MAX_SCALE:
            raise ValueError(f"a scale must be -{MAX_SCALE}..{MAX_SCALE}, not {brief(scale)}")
    return {_whole("a scale's number", number): scale for number, scale in saved.items()}


def _codec(saved: Any) -> Codec:
    """Make the codec of a saved state. Older states have no ``codec``, and "planes" as a mode."""
    found = _entries("its codec", saved, {"error_bound", "mode"}, {"codec"})
    bound, codec, mode = found["error_bound"], found.get("codec"), found["mode"]
    if not isinstance(bound, int | float) or any(not isinstance(name, str | None) for name in (codec, mode)):
        raise ValueError(f"the state's codec must be a bound and names, not {brief(found)}")
    known = wire.variant(next((name for name in (mode, codec) if name is not None), ""))
    if codec not in (None, known.codec):
        raise ValueError(f"the state's codec {brief(codec)} has no mode {brief(mode)}")
    try:
        return Codec(bound, *known)
    except (TypeError, OverflowError) as error:
        raise ValueError(f"the state's codec: {error}") from None


def _array(number: Any, residual: Any) -> Any:
    """Return a residual of a saved state as an array. `Residuals.load` checks its values."""
    if not isinstance(residual, torch.Tensor):
        raise ValueError(f"the residual of parameter {number} must be a tensor, not {brief(residual)}")
    if residual.dtype != torch.float32:
        raise ValueError(f"the residual of parameter {number} must be float32, not {residual.dtype}")
    try:
        return residual.detach().resolve_neg().cpu().numpy()
    except (RuntimeError, TypeError) as error:  # sparse, without data, ...
        raise ValueError(f"the residual of parameter {number} must be a plain tensor: {error}") from None
