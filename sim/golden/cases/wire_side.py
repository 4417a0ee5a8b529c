# SPDX-License-Identifier: BSD-2-Clause
"""Frames as they are on the wire, with a shim."""

from dataclasses import replace
from typing import Any

from inceptionn.wire import Verdict as V

from ..flows import FlowTable
from ..frame import EngineConfig, Result, transmit
from ..packets import tcp


def alone(frame: bytes, config: EngineConfig) -> Result:
    """Do as the transmit engine does to ``frame`` if it is a datagram, or a segment on its flow's grid."""
    return transmit(frame, replace(config, learn_phases=True), FlowTable())


def sent(frame: bytes, config: EngineConfig) -> bytes:
    """Compress ``frame`` as :func:`alone`. Raise ``ValueError`` if it does not."""
    result = alone(frame, config)
    if result.verdict is not V.COMPRESSED:
        raise ValueError(f"the frame is not compressed: {result.verdict.name}")
    return result.frame


def shimmed(
    block: str, lanes: int, base: int = 122, *, version: int = 1, lane_bytes: int = 4, cut: int = 0, **ip: Any
) -> bytes:
    """Make a TCP frame with a valid shim for ``lanes`` lanes and any ``block`` (hexadecimal).

    ``base`` is byte 3 of the shim. The last ``cut`` bytes, though announced, are not in the frame. ``ip`` as
    for :func:`~..packets.ipv4`.
    """
    shim = f"494e{version:02x}{base:02x}{lane_bytes * lanes:04x}0000"
    frame = tcp(bytes.fromhex(shim + block), **ip)
    return frame[: len(frame) - cut]
