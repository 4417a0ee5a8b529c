# SPDX-License-Identifier: BSD-2-Clause
"""The form of a case, and the parts that the cases of both engines and both codecs share."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from inceptionn.wire import CodecParameters
from inceptionn.wire import Verdict as V

from .. import packets
from ..frame import EngineConfig
from ..values import payload

TIMESTAMP = bytes.fromhex("0101080a0000000100000002")
"""NOP, NOP, timestamps: the TCP options of most Linux segments."""
GRADIENTS = payload("gradients", 64)
ETHERNET, IP, TCP = 0, 14, 34
"""Offsets of the headers of a frame without VLAN tag, at which tests change fields."""


@dataclass(frozen=True)
class Case:
    """A frame, how it arrives, and the verdict it must get."""

    name: str
    frame: bytes
    verdict: V
    bad: bool = False


class Sequence:
    """Cases that an engine sees in this order, out of reset, with this configuration."""

    def __init__(self, name: str, config: EngineConfig, *cases: Case) -> None:
        self.name, self.config, self.cases = name, config, cases


OPENING = Case("SYN teaches phase 0", packets.OPENING, V.SYN)


class CodecCases(Protocol):
    """The cases of a codec's module (:mod:`.paper`, :mod:`.planes`), beside those that both codecs share."""

    CONFIG: EngineConfig
    INVALID: CodecParameters
    NOISE: V
    """Transmit verdict of 362 lanes of random bits."""
    RAW_LANE: int
    """A value, as bits, that keeps all of its bits, whatever its low half."""
    FINE_EXPONENT: int
    """The biased exponent of values that the codec shortens, but by the fewest bits."""

    def sizes(self) -> tuple[Case, ...]:
        """Make blocks one byte longer than, as long as, and one byte shorter than the payload.

        They are for the transmit engine.
        """

    def numbers(self) -> list[Sequence]:
        """Make transmit cases with parameters that are invalid, and other extremes."""

    def bounds(self) -> Mapping[str, CodecParameters]:
        """Return every bound in every mode, by name."""

    def bad_shims(self, good: bytes) -> tuple[Case, ...]:
        """Make receive cases with other bytes 2 and 3 of the shim of the TCP frame ``good``."""

    def malformed(self) -> Sequence:
        """Make receive cases with faulty blocks after a valid shim."""


def patched(frame: bytes, at: int, field: str) -> bytes:
    """Replace the bytes of ``frame`` from ``at`` on by hexadecimal ``field``."""
    new = bytes.fromhex(field)
    return frame[:at] + new + frame[at + len(new) :]
