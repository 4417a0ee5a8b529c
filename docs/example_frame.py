# SPDX-License-Identifier: BSD-2-Clause
"""The frame that the pictures and how-it-works.md follow: a recorded one, taken through the golden model."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from inceptionn import wire
from inceptionn.sim.capture import read_pcap
from inceptionn.sim.golden import EngineConfig, FlowTable, packets, receive, transmit
from inceptionn.sim.golden.parse import Headers, parse
from inceptionn.wire import Verdict

CAPTURE = Path(__file__).parents[1] / "examples/captures/digits.pcap"
NUMBER = 387
"""The frame in the capture: a full TCP segment without options, whose ratio is near the mean."""
CONFIGS = {"paper": EngineConfig(), "planes": EngineConfig(parameters=wire.planes_parameters(wire.DEFAULT_K))}
"""The engines' settings after reset, by codec."""
HEADERS = {
    "Ethernet": (("destination MAC", 6), ("source MAC", 6), ("type", 2)),
    "IPv4": (
        ("ver.", 1), ("ToS", 1), ("total length", 2), ("id", 2), ("fragment", 2), ("TTL", 1), ("proto", 1),
        ("checksum", 2), ("source address", 4), ("destination|address", 4),
    ),
    "TCP": (
        ("source port", 2), ("dest. port", 2), ("sequence number", 4), ("acknowledged", 4), ("offset", 1),
        ("flags", 1), ("window", 2), ("checksum", 2), ("urgent", 2),
    ),
}  # fmt: skip
"""Fields of the headers of a frame without VLAN tag and options, with their bytes; ``|`` is a row's end."""


@dataclass(frozen=True)
class Journey:
    """A frame as the sending host makes it, as the wire carries it, and as the other host gets it."""

    config: EngineConfig
    host: bytes
    wire: bytes
    restored: bytes
    headers: Headers

    @property
    def codec(self) -> wire.CodecSpec:
        """The record of the codec."""
        return self.config.format.spec

    @property
    def values(self) -> NDArray[np.float32]:
        """The payload before the wire."""
        return np.frombuffer(self.host[self.headers.payload :], "<f4")

    @property
    def restored_values(self) -> NDArray[np.float32]:
        """The payload after the wire."""
        return np.frombuffer(self.restored[self.headers.payload :], "<f4")

    @property
    def table(self) -> int:
        """The offset of the block's table in the wire frame."""
        return self.headers.payload + wire.SHIM_BYTES

    @property
    def data(self) -> int:
        """The offset of the block's data in the wire frame."""
        return self.table + self.codec.table_bytes(len(self.values))


def journey(frames: Iterable[bytes], config: EngineConfig) -> Journey:
    """Take frames through a transmit engine, and the last one also through a receive engine."""
    flows = FlowTable()
    for frame in frames:
        sent = transmit(frame, config, flows)
    came = receive(sent.frame, config)
    assert (sent.verdict, came.verdict) == (Verdict.COMPRESSED, Verdict.RESTORED)
    _, headers = parse(frame, config.tags, config.tos_mask, whole=True)
    assert headers
    return Journey(config, frame, sent.frame, came.frame, headers)


@cache
def recorded(codec: str) -> Journey:
    """Return the way of frame `NUMBER` of the capture."""
    return journey(read_pcap(CAPTURE)[: NUMBER + 1], CONFIGS[codec])


@cache
def short(codec: str) -> Journey:
    """Return the way of a frame of the golden model with the first 16 values of the recorded one."""
    values = recorded(codec).values[:16]
    return journey([packets.OPENING, packets.tcp(values.tobytes())], CONFIGS[codec])
