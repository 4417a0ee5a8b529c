# SPDX-License-Identifier: BSD-2-Clause
"""Lanes, bursts and blocks of every codec, and their error bounds (sections 1 and 2)."""

import math
from typing import Any

# Lanes, bursts, blocks (section 2).
GROUP_LANES = 8
"""Lanes (fp32 values) of a group: those whose tags make one tag word."""
LANE_BYTES = 4
BURST_BYTES = GROUP_LANES * LANE_BYTES
WORD_BYTES = 2
"""Bytes of a word of tags or codes."""
MAX_LANES = 2304
"""Most lanes in a block: 9216 bytes of fp32."""
STREAM_LANES = 2048
"""Lanes of every block of a stream but the last."""

# fp32 (IEEE 754 binary32).
EXPONENT_BIAS = 127
MANTISSA_BITS = 23

# Error bounds: 2**-k (section 1).
MIN_K = 1
MAX_K = 14
DEFAULT_K = 10


def bound_exponent(k: int) -> int:
    """Return E0, the biased exponent of an error bound of ``2**-k``: ``127 - k``.

    Raises ``ValueError`` for a ``k`` outside 1..14.
    """
    if not MIN_K <= k <= MAX_K:
        raise ValueError(f"error bound must be 2**-k with k in {MIN_K}..{MAX_K}, not k = {k!r}")
    return EXPONENT_BIAS - k


def error_bound_exponent(error_bound: Any) -> int:
    """Return the k of an error bound of ``2**-k``.

    Raises ``TypeError`` for what is not a number and ``ValueError`` for one that is not 2**-k with
    k = 1..14; both messages end with the offending value.
    """
    rule = f"error bound must be 2**-k with k in {MIN_K}..{MAX_K}"
    if isinstance(error_bound, bool | str | bytes) or not hasattr(error_bound, "__float__"):
        hint = f" (codec={error_bound!r}?)" if isinstance(error_bound, str) and error_bound.isalpha() else ""
        raise TypeError(f"{rule}{hint}, not {error_bound!r}")
    try:
        fraction, exponent = math.frexp(error_bound)
    except OverflowError:  # an integer beyond the range of floats
        fraction, exponent = 1.0, 0
    if fraction != 0.5 or not MIN_K <= 1 - exponent <= MAX_K:
        hint = f" (2**-{error_bound:g}?)" if error_bound in range(2, MAX_K + 1) else ""
        raise ValueError(f"{rule}{hint}, not {error_bound!r}")
    return 1 - exponent
