# SPDX-License-Identifier: BSD-2-Clause
"""Frames for every verdict of both engines and both codecs, each with the verdict written down by hand.

Tests hold the model to these verdicts, and the conformance vectors are made of them.
"""

from . import bf16, paper, planes, receive, transmit
from .case import GRADIENTS, OPENING, TIMESTAMP, Case, CodecCases, Sequence, patched
from .transmit import sharing_ports
from .wire_side import alone, sent, shimmed

__all__ = [
    "CODECS", "Case", "CodecCases", "GRADIENTS", "OPENING", "Sequence", "TIMESTAMP", "alone", "patched",
    "receive_sequences", "sent", "sharing_ports", "shimmed", "transmit_sequences",
]  # fmt: skip

CODECS: dict[str, CodecCases] = {"paper": paper, "planes": planes}
"""Each codec's own cases, by its name."""


def transmit_sequences(codec: str = "paper") -> list[Sequence]:
    """Return every case of the transmit engine of a codec of `CODECS`, or of "bf16" lanes."""
    return bf16.transmitted() if codec == "bf16" else transmit.sequences(CODECS[codec])


def receive_sequences(codec: str = "paper") -> list[Sequence]:
    """Return every case of the receive engine of a codec of `CODECS`, or of "bf16" lanes."""
    return bf16.received() if codec == "bf16" else receive.sequences(CODECS[codec])
