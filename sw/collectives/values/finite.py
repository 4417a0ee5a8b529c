# SPDX-License-Identifier: BSD-2-Clause
"""Whether values are finite."""

from typing import Any

import numpy as np
from numpy.typing import NDArray


def all_finite(values: NDArray[Any]) -> bool:
    """Tell whether all values are finite: float32 or float16, or uint16 with bfloat16 patterns."""
    flat = values.reshape(-1)
    if flat.dtype == np.uint16:
        return not flat.size or bool((flat & np.uint16(0x7FFF)).max() < 0x7F80)
    # One pass that only reads. A second one is needed only if the sum of squares overflows.
    with np.errstate(over="ignore", invalid="ignore"):
        if flat.dtype == np.float32 and np.isfinite(np.dot(flat, flat)):
            return True
    return bool(np.isfinite(flat).all())
