# SPDX-License-Identifier: BSD-2-Clause
"""Checks of arguments that the systems share."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..training import Floats


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
