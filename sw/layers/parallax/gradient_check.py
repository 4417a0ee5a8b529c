# SPDX-License-Identifier: BSD-2-Clause
"""A check that a model's gradients fit its variables, before any of them is sent."""

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from ..parameters import Floats, Gradients, RowSparse


def misfit(
    gradients: Gradients, parameters: Mapping[str, Floats], sparse: Collection[str] | None = None
) -> str:
    """Return what is wrong with a step's gradients, naming the key, or "" if they fit. O(keys).

    ``sparse`` are the keys whose gradients were `RowSparse` in the first step. It is None in that step.
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
            return f"the gradient of {key!r} was {was} in step 0, but is now {found}"
    if unknown := [key for key in gradients if key not in parameters]:
        return f"there is no variable {unknown[0]!r}"
    return ""


def values_of(gradient: Any) -> Floats:
    """Return the values of a gradient. For a sparse one, those of its rows."""
    values: Floats = gradient.values if isinstance(gradient, RowSparse) else gradient
    return values
