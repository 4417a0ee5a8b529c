# SPDX-License-Identifier: BSD-2-Clause
"""A test pattern that shows whether NICs with the engines are between two ranks, and their settings.

Every rank sends the pattern to every other over their connection for floats. Values that arrive unchanged
passed no engine, or one that is switched off. Values that a codec has rounded passed two engines; the rounded
values identify the codec, its mode and the error bound. An engine on one side only, or with another codec, is
also detected, because the receiving host then drops packets with wrong checksums.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..wire import EXPONENT_BIAS, MANTISSA_BITS, MAX_K, MIN_K, VARIANTS

if TYPE_CHECKING:
    from ..codec import Codec
    from ..codec.stream_codec import StreamCodec

_EXPONENTS = 18
_REPEATS = 128


def pattern() -> NDArray[np.float32]:
    """Return the pattern, 9216 bytes: the 18 exponents just below that of 1.0, all mantissa bits set.

    Both signs occur. The exponents distinguish the error bounds: any two settings of the engines give
    different values in each packet.
    """
    exponents = EXPONENT_BIAS - 1 - np.arange(_EXPONENTS, dtype=np.uint32)
    bits = (exponents << MANTISSA_BITS) | np.uint32((1 << MANTISSA_BITS) - 1)
    bits = np.tile(bits, _REPEATS)
    bits[1::2] |= np.uint32(1 << 31)
    return bits.view(np.float32)


def bf16_pattern() -> NDArray[np.uint16]:
    """Return the same pattern in bf16, 4608 bytes, as words; every bound changes some of its values."""
    return (pattern().view(np.uint32) >> 16).astype(np.uint16)


def restored_bf16(received: NDArray[np.uint16], codec: Codec) -> bool:
    """Tell whether NICs with this codec and bf16 lanes processed the pattern.

    Single packets may have been sent raw.
    """
    sent, lossy = bf16_pattern(), codec.lossy(bf16_pattern(), dtype="bfloat16")
    return bool(np.all((received == sent) | (received == lossy)) and not np.array_equal(received, sent))


def recognise(received: NDArray[np.float32]) -> Codec | None:
    """Return the codec of the engines that processed the pattern, or an equivalent; None if unchanged.

    Single packets may have been sent raw, so each value is either the pattern's or the codec's. Raises
    ``ValueError`` if no codec explains the values.
    """
    from ..codec import Codec

    sent = pattern().view(np.uint32)
    got = received.view(np.uint32)
    if np.array_equal(got, sent):
        return None
    for variant in VARIANTS:
        for k in range(MIN_K, MAX_K + 1):
            codec = Codec(2.0**-k, *variant)
            lossy = codec.lossy(pattern()).view(np.uint32)
            if np.all((got == sent) | (got == lossy)):
                return codec
    raise ValueError("no error bound and mode of the engines explain the received values")


def alike(first: StreamCodec, second: Codec) -> bool:
    """Tell whether a codec changes every value as that of NICs does. Their streams may still differ.

    Neighbouring bounds are often alike in mode ``literal``, because Algorithm 2 returns zero for values that
    its 8 bits cannot hold.
    """
    if not isinstance(first, type(second)):
        return False  # NICs have no other
    if first.parameters == second.parameters:
        return True
    seen = EXPONENT_BIAS - _EXPONENTS
    if min(first.parameters.e0, second.parameters.e0) < seen:
        return False  # one codec keeps exponents that are not in the pattern
    sent = pattern()
    return np.array_equal(first.lossy(sent), second.lossy(sent))
