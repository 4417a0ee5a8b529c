# SPDX-License-Identifier: BSD-2-Clause
"""Payload kinds, as fp32 bit patterns, for tests and vectors: the same on every machine.

Built from the integers of :class:`random.Random` alone, which are the same in every version.
"""

import random
from collections.abc import Callable

import numpy as np

from .codec import Bits

SPECIAL = (
    0x00000000,  # zeros
    0x80000000,
    0x00000001,  # denormals
    0x807FFFFF,
    0x7F800000,  # infinities
    0xFF800000,
    0x7FC00000,  # quiet and signalling NaNs, with payloads
    0xFFC00001,
    0x7F800001,
    0xFFBFFFFF,
)
EDGE_MANTISSAS = (0, 1, 0x0000FF, 0x000100, 0x007FFF, 0x00FFFF, 0x010000, 0x400000, 0x7FFFFF)
"""Both ends of the range and both sides of the lowest bits that the 16- and 8-bit classes can keep."""


def _number(source: random.Random, low: int, high: int) -> int:
    """Draw a number of either sign with a biased exponent in low..high."""
    return source.getrandbits(1) << 31 | source.randint(low, high) << 23 | source.getrandbits(23)


def zeros(count: int, source: random.Random) -> Bits:
    """Return +0.0 in all lanes."""
    return np.zeros(count, np.uint32)


def gradients(count: int, source: random.Random) -> Bits:
    """Draw values peaked around zero (the paper's Fig. 5).

    Three of four are below 2**-10, the rest up to 2**-3.
    """
    limits = [(100, 116) if source.getrandbits(2) else (117, 123) for _ in range(count)]
    return np.array([_number(source, *limit) for limit in limits], np.uint32)


def fractions(count: int, source: random.Random) -> Bits:
    """Draw all classes but the raw one: magnitudes in [2**-17, 1)."""
    return np.array([_number(source, 110, 126) for _ in range(count)], np.uint32)


def large(count: int, source: random.Random) -> Bits:
    """Draw magnitudes of 1 and more: incompressible."""
    return np.array([_number(source, 127, 254) for _ in range(count)], np.uint32)


def edges(count: int, source: random.Random) -> Bits:
    """Draw special values and class edges."""
    return np.array(
        [
            source.choice(SPECIAL)
            if source.getrandbits(2) == 0
            else source.getrandbits(1) << 31 | source.randint(111, 128) << 23 | source.choice(EDGE_MANTISSAS)
            for _ in range(count)
        ],
        np.uint32,
    )


def noise(count: int, source: random.Random) -> Bits:
    """Draw random bits."""
    return np.array([source.getrandbits(32) for _ in range(count)], np.uint32)


KINDS: dict[str, Callable[[int, random.Random], Bits]] = {
    kind.__name__: kind for kind in (zeros, gradients, fractions, large, edges, noise)
}
"""Every payload kind by name."""


def payload(kind: str, count: int, seed: int = 0) -> bytes:
    """Return the bytes, as they lie in a frame, of ``count`` values of a kind."""
    return KINDS[kind](count, random.Random(f"{kind} {count} {seed}")).astype("<u4").tobytes()


def bf16_payload(kind: str, count: int) -> bytes:
    """Return the bytes of ``count`` bf16 values of a kind: the upper halves of fp32 values."""
    words = np.frombuffer(payload(kind, count), "<u4")
    return (words >> 16).astype("<u2").tobytes()
