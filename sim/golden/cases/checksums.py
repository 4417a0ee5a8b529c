# SPDX-License-Identifier: BSD-2-Clause
"""Frames made for a rare checksum."""

import numpy as np

from .. import checksum
from ..packets import tcp, udp
from .case import GRADIENTS, CodecCases

_STRIDE = 64
"""Step between the values that are tried in the second lane."""


def udp_to_zero(codec: CodecCases) -> bytes:
    """Make a datagram whose checksum, once restored, computes to 0, so that 0xFFFF is sent."""
    lanes = np.frombuffer(GRADIENTS, "<u4").copy()
    lanes[0] = codec.RAW_LANE  # its low half is free to set the sum
    probe = udp(lanes.tobytes())
    seen = codec.CONFIG.format.pack(lanes).seen
    before, after = checksum.word_sum(lanes.tobytes()), checksum.word_sum(seen.astype("<u4").tobytes())
    excess = checksum.update(int.from_bytes(probe[40:42], "big"), before, after)
    lanes[0] |= int.from_bytes(excess.to_bytes(2, "big"), "little")
    return udp(lanes.tobytes())


def ambiguous(codec: CodecCases) -> bytes:
    """Make a segment with a right checksum whose unchanged wire form would pass the host's test.

    The test's sum is linear in the words. The first two lanes have one exponent, and values that the codec
    keeps exactly. So each lane's contribution to the sum depends on that lane alone: every pair of values for
    the two is looked up in a table of one of them.
    """
    lanes = np.zeros(16, "<u4")
    form = codec.CONFIG.format
    choices = (codec.FINE_EXPONENT << 23 | np.arange(1 << 14) << 9).astype("<u4")
    choices = choices[form.pack(choices).seen == choices]

    def excess(lane: int, choice: np.uint32) -> int:
        trial = lanes.copy()
        trial[:2] = choices[0]
        trial[lane] = choice
        trial_bytes = trial.tobytes()
        block = form.pack(trial).block
        shim = form.shim(form.base, len(trial_bytes))
        length_change = len(shim) + len(block) - len(trial_bytes)
        wire_sum = length_change + checksum.word_sum(shim + block)
        return (wire_sum - checksum.word_sum(trial_bytes)) % 0xFFFF

    rest = excess(0, choices[0])
    second = {(excess(1, choice) - rest) % 0xFFFF: choice for choice in choices[::_STRIDE]}
    for choice in choices:
        needed = -excess(0, choice) % 0xFFFF
        if needed in second:
            lanes[0], lanes[1] = choice, second[needed]
            return tcp(lanes.tobytes())
    raise AssertionError("no pair of lanes makes the sum zero")
