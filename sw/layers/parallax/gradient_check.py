# SPDX-License-Identifier: BSD-2-Clause
"""Whether a model's gradients fit its variables, before any of them is sent."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from ...training import Floats, Gradients, RowSparse


def misfit(
    gradients: Gradients, parameters: Mapping[str, Floats], sparse: Collection[str] | None = None
) -> str:
    """What is wrong with the gradients of a step, naming the key; "" if they fit. O(keys).

    ``sparse``: the keys whose gradients have been `RowSparse` so far; None in the first step, which decides.
    """
    for key, variable in parameters.items():
        if key not in gradients:
            return f"there is no gradient of {key!r}"
        gradient = gradients[key]
        values = values_of(gradient)
        is_array = isinstance(values, np.ndarray)
        if not is_array or values.dtype != np.float32 or tuple(gradient.shape) != variable.shape:
            found = f"{values.dtype} of {gradient.shape}" if is_array else type(gradient).__name__
            return f"the gradient of {key!r} must be float32 of {variable.shape}, not {found}"
        if sparse is not None and isinstance(gradient, RowSparse) != (key in sparse):
            was, found = ("sparse", "dense") if key in sparse else ("dense", "sparse")
            return f"the gradient of {key!r} was {was} in step 0, and is {found}"
    if unknown := [key for key in gradients if key not in parameters]:
        return f"there is no variable {unknown[0]!r}"
    return ""


def values_of(gradient: Any) -> Floats:
    """The values of a gradient, those of its rows if it is sparse."""
    values: Floats = gradient.values if isinstance(gradient, RowSparse) else gradient
    return values
