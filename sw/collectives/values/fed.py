# SPDX-License-Identifier: BSD-2-Clause
"""Values and the residual of error feedback that is to be added to them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...codec import converted, largest_magnitude

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Fed:
    """Values and their residual times ``decay``, which are added only as they are used.

    Their sum would need two more passes over memory. ``residual`` is None before the first step. Values are
    float32, float16, or uint16 with bfloat16 patterns.
    """

    own: NDArray[Any]
    residual: Floats | None = None
    decay: float = 1.0

    @property
    def size(self) -> int:
        """The number of values."""
        return self.own.size

    def __getitem__(self, where: Any) -> Fed:
        """Return those in some places of flat values."""
        return Fed(self.own[where], None if self.residual is None else self.residual[where], self.decay)

    def added(self) -> Floats:
        """Return the sums, float32 in new memory."""
        added = converted(self.own, patterns=True)
        if self.residual is not None:
            with np.errstate(invalid="ignore", over="ignore"):
                added += self.residual * np.float32(self.decay)
        return added

    def largest(self) -> float:
        """Return the largest finite magnitude of the sums, 0 if there is none."""
        return largest_magnitude(self.own, self.residual, self.decay, dtype="bfloat16")
