# SPDX-License-Identifier: BSD-2-Clause
"""Checks of arguments that the systems share."""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np

from ..training import Floats

Policy = Literal["raise", "skip"]
"""What happens to gradients that are not finite: an error, or the step goes without them."""


def check_policy(policy: str) -> None:
    """``ValueError`` for anything but "raise" and "skip"."""
    if policy not in get_args(Policy):
        raise ValueError(f"nonfinite must be 'raise' or 'skip', not {policy!r}")


def float32_array(key: str, value: Any) -> Floats:
    """``value``, if it is a float32 array; else ``TypeError`` that names the key."""
    if not isinstance(value, np.ndarray) or value.dtype != np.float32:
        raise TypeError(f"key {key!r} must be a float32 array, not {getattr(value, 'dtype', type(value))!s}")
    return value


def integer(name: str, value: Any) -> int:
    """``value`` as an ``int``, if it is one of Python or NumPy; else ``TypeError`` that names it."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypeError(f"{name} must be an integer, not {value!r}")
    return int(value)
