# SPDX-License-Identifier: BSD-2-Clause
"""The floats that tell whether NICs with the engines are between two ranks, and their settings.

Every rank sends every other the same floats over their connection for floats. Values that arrive unchanged
passed no engine (or one that is switched off). Values that a codec has rounded passed two engines; what is
left of them tells the codec, its mode and the error bound. An engine on one side only, or one of another
codec, is also detected: the receiving host then drops packets for their checksum.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..wire import EXPONENT_BIAS, MANTISSA_BITS, MAX_K, MIN_K, MODES

if TYPE_CHECKING:
    from ..codec import Codec

_EXPONENTS = 18
_REPEATS = 128


def pattern() -> NDArray[np.float32]:
    """The floats that are sent, 9216 bytes: exponents below 1.0 that the bounds tell apart, all bits set.

    Both signs occur. Any two settings of the engines give different values in each of its packets.
    """
    exponents = EXPONENT_BIAS - 1 - np.arange(_EXPONENTS, dtype=np.uint32)
    bits = (exponents << MANTISSA_BITS) | np.uint32((1 << MANTISSA_BITS) - 1)
    bits = np.tile(bits, _REPEATS)
    bits[1::2] |= np.uint32(1 << 31)
    return bits.view(np.float32)


def recognise(received: NDArray[np.float32]) -> Codec | None:
    """The codec of the engines that the pattern has passed, or an equivalent one; None if it is unchanged.

    Single packets may have been sent raw, so each value is either the pattern's or the codec's.
    ``ValueError`` if no codec explains the values.
    """
    from ..codec import Codec

    sent = pattern().view(np.uint32)
    got = received.view(np.uint32)
    if np.array_equal(got, sent):
        return None
    for mode in MODES:
        for k in range(MIN_K, MAX_K + 1):
            codec = Codec(error_bound=2.0**-k, mode=mode)
            lossy = codec.lossy(pattern()).view(np.uint32)
            if np.all((got == sent) | (got == lossy)):
                return codec
    raise ValueError("no error bound and mode of the engines explain what came")


def alike(first: Codec, second: Codec) -> bool:
    """Whether two codecs change every value in the same way, though their streams may differ.

    In ``literal`` neighbouring bounds often do: Algorithm 2 returns zero for what its 8 bits cannot hold.
    """
    if first.parameters == second.parameters:
        return True
    seen = EXPONENT_BIAS - _EXPONENTS
    if min(first.parameters.e0, second.parameters.e0) < seen:
        return False  # one keeps exponents that are not in the pattern
    sent = pattern()
    return np.array_equal(first.lossy(sent), second.lossy(sent))
