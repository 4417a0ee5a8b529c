# SPDX-License-Identifier: BSD-2-Clause
"""Types and errors that the NumPy modules of the codecs share."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Bits = NDArray[np.uint32]
"""fp32 values as their bit patterns."""
Bytes = NDArray[np.uint8]


@dataclass(frozen=True)
class Fault:
    """The first fault of a block: byte offset, index of the first group it spoils, and what it is."""

    offset: int
    group: int
    reason: str


def malformed(at: int, reason: str) -> ValueError:
    """Make the error for a stream that no encoder makes; ``at`` is the byte at which that shows."""
    return ValueError(f"malformed stream at byte {at}: {reason}")
