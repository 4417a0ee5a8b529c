# SPDX-License-Identifier: BSD-2-Clause
"""Arguments that are integers, of Python or NumPy."""

from operator import index
from typing import Any

import numpy as np

from .text import brief


def is_integer(value: Any) -> bool:
    """Tell whether an argument is an integer, of Python or NumPy. True is not."""
    return hasattr(value, "__index__") and not isinstance(value, bool | np.bool_ | np.ndarray)


def integer(
    name: str, value: Any, least: int | None = None, most: int | None = None, *, unit: str = ""
) -> int:  # fmt: skip
    """Return an integer of Python or NumPy as an ``int``.

    Raises ``TypeError`` for anything else, and ``ValueError`` outside ``least`` to ``most``. They name
    the argument and its value; ``unit``, such as " steps", follows the limits. ``most`` needs a ``least``.
    """
    if not is_integer(value):
        raise TypeError(f"{name} must be an integer, not {brief(value)}")
    if (least is not None and value < least) or (most is not None and value > most):
        limits = f"at least {least}" if most is None else f"{least}..{most}"
        raise ValueError(f"{name} must be {limits}{unit}, not {brief(value)}")
    return index(value)
