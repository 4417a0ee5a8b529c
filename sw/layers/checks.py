# SPDX-License-Identifier: BSD-2-Clause
"""Argument checks that the systems share."""

from typing import Any, Literal, get_args

import numpy as np

from .parameters import Floats

Policy = Literal["raise", "skip"]
"""The reaction to gradients that are not finite: raise an error, or leave them out of the step."""


class NonFiniteGradient(ArithmeticError):
    """A gradient holds infinities or NaNs. Attributes: ``key``, ``step``."""

    def __init__(self, key: str, step: int) -> None:
        super().__init__(f"the gradient of key {key!r} at step {step} has values that are not finite")
        self.key, self.step = key, step


def check_policy(policy: str) -> None:
    """Raise ``ValueError`` for anything but "raise" and "skip"."""
    if policy not in get_args(Policy):
        raise ValueError(f"nonfinite must be 'raise' or 'skip', not {policy!r}")


def float32_array(key: str, value: Any) -> Floats:
    """Return ``value`` if it is a float32 array. Otherwise raise ``TypeError`` naming the key."""
    if not isinstance(value, np.ndarray) or value.dtype != np.float32:
        raise TypeError(f"key {key!r} must be a float32 array, not {getattr(value, 'dtype', type(value))!s}")
    return value
