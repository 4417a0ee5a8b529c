# SPDX-License-Identifier: BSD-2-Clause
"""Frames that no engine touches, and whether those that arrived are what was sent."""

import random
import zlib

from inceptionn.sim.golden import packets


def frames_of(count: int, seed: int = 1, longest: int = 1400) -> list[bytes]:
    """Frames that no engine touches, each with its number and a check of its own."""
    source = random.Random(seed)
    made = []
    for number in range(count):
        body = number.to_bytes(4, "big") + source.randbytes(source.choice((40, 60, 200, longest)))
        made.append(packets.ethernet(body + zlib.crc32(body).to_bytes(4, "big"), 0x88B5))
    return made


def in_order(arrived: list[bytes], sent: list[bytes]) -> bool:
    """Every frame that arrived was sent, whole, and none came twice or before its time."""
    rest = iter(sent)
    return all(frame in rest for frame in arrived)
