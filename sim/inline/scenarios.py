# SPDX-License-Identifier: BSD-2-Clause
"""Checks of two connected devices: equality with the golden model, and the gain."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ..golden import EngineConfig, FlowTable, packets, receive, transmit
from .model import Arrived, InlineModel
from .pair import Pair

PAYLOAD = 1448
"""Bytes of a TCP segment at an MTU of 1500 with time stamps."""
SCALES = (3e-3, 3e-4)
"""Scales of the Laplace distributions from which gradients are drawn."""
SEED = 1
"""Of the gradients."""
LEAST_GAIN = 3.0
"""Target for the gain at both scales, with host and network at 1000 and 100 Mbit/s."""


def differences(frames: Sequence[bytes], pair: Pair, config: EngineConfig, sender: int = 0) -> list[str]:
    """List differences of the wire or the far host from the golden model.

    The list is empty if there are none. ``frames`` are all that the host of ``sender`` ever sent through
    devices fresh out of reset.
    """
    flows = FlowTable()
    wire = [
        transmit(frame.ljust(packets.MINIMUM_FRAME, b"\0"), config, flows).frame.ljust(
            packets.MINIMUM_FRAME, b"\0"
        )
        for frame in frames
    ]
    host = [receive(frame, config).frame for frame in wire]
    near, far = pair.sides[sender], pair.sides[1 - sender]
    return _compared("wire", near.wire, wire) + _compared("host", far.host, host)


def _compared(place: str, arrived: Sequence[Arrived], expected: Sequence[bytes]) -> list[str]:
    found = []
    if len(arrived) != len(expected):
        found.append(f"{place}: {len(arrived)} frames, not {len(expected)}")
    for number, (frame, wanted) in enumerate(zip(arrived, expected, strict=False)):
        if frame.data != wanted:
            found.append(f"{place}: frame {number} differs ({len(frame.data)} bytes, not {len(wanted)})")
    return found


def gradients(count: int, scale: float, *, tagged: bool = True) -> list[bytes]:
    """Make TCP segments of one connection that carry fp32 values of a Laplace distribution.

    If they are tagged, its SYN comes first.
    """
    values = np.random.default_rng(SEED).laplace(0, scale, count * PAYLOAD // 4).astype("<f4").tobytes()
    segments = [
        packets.tcp(
            values[at : at + PAYLOAD], sequence=at, tcp_options=b"\x01\x01\x08\x0a" + bytes(8),
            tos=0x28 if tagged else 0,
        )
        for at in range(0, count * PAYLOAD, PAYLOAD)
    ]  # fmt: skip
    return [packets.OPENING, *segments] if tagged else segments


@dataclass(frozen=True)
class Gain:
    """Rates in Mbit/s of tagged and untagged frames at the far host."""

    codec: str
    scale: float
    untagged: float
    tagged: float

    @property
    def gain(self) -> float:
        """Ratio of the rates of tagged and untagged frames."""
        return self.tagged / self.untagged


def rate(arrived: Sequence[Arrived]) -> float:
    """Return the rate of frames in Mbit/s from the end of the first to the end of the last.

    FCS, preamble and gap do not count.
    """
    bits = 8 * sum(len(frame.data) for frame in arrived[1:])
    return bits * 1e6 / (arrived[-1].end - arrived[0].end)


def gain(pair: Pair, scale: float, frames: int, progress: Callable[[int], None] = lambda n: None) -> Gain:
    """Measure the gain of one kind of gradients."""
    rates = []
    for tagged in (False, True):
        before = len(pair.sides[1].host)
        pair.run(gradients(frames, scale, tagged=tagged), progress=progress)
        rates.append(rate(pair.sides[1].host[before:]))
    model: InlineModel = pair.sides[0].model
    return Gain(model.codec or "none", scale, *rates)
