# SPDX-License-Identifier: BSD-2-Clause
"""Constants of both codecs and of the wire format, versions 1 (the paper's codec) and 2 (planes).

This module is the single source of every number that the wire format fixes. The RTL, the golden
model, the native codec and the documentation read it; it imports nothing but the standard library.
Section numbers refer to ``docs/wire-format.md``; "the paper" is Li et al., *A Network-Centric
Hardware/Algorithm Co-Design to Accelerate Distributed Training of Deep Neural Networks*, MICRO 2018.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntEnum
from typing import Literal

# Lanes, bursts, blocks (section 2).
GROUP_LANES = 8
"""Lanes (fp32 values) of a group: those whose tags make one tag word."""
LANE_BYTES = 4
BURST_BYTES = GROUP_LANES * LANE_BYTES
TAG_WORD_BYTES = 2
MAX_LANES = 2304
"""Most lanes in a block: 9216 bytes of fp32."""
STREAM_LANES = 2048
"""Lanes of every block of a stream but the last."""

# fp32 (IEEE 754 binary32).
EXPONENT_BIAS = 127
MANTISSA_BITS = 23


class Tag(IntEnum):
    """A lane's 2-bit class, named after the paper's Algorithm 2."""

    ZERO = 0b00
    BITS8 = 0b01
    BITS16 = 0b10
    RAW = 0b11


TAG_BYTES = (0, 1, 2, 4)
"""Bytes of a lane's vector, indexed by its tag."""

# Codes of the planes codec (section 9).
CODES = 16
CODE_BYTES = (*range(14), 15, BURST_BYTES)
"""Bytes of a group's data, indexed by its code."""
RAW_CODE = 15
"""The group has a raw lane, and its data are fp32 words."""
CODE_WORD_BYTES = 2
CODE_WORD_GROUPS = 4
"""Groups whose codes share a word of the code plane."""
RAW_EXPONENT = 14
"""A lane is raw from a biased exponent of E0 + 14 on, that is from a magnitude of ``2**(14 - k)``."""

# Error bounds: 2**-k (section 1).
MIN_K = 1
MAX_K = 14
DEFAULT_K = 10
Mode = Literal["literal", "bounded", "planes"]
PAPER_MODES: tuple[Mode, ...] = ("literal", "bounded")
"""Modes of the paper's codec, wire format version 1."""
MODES: tuple[Mode, ...] = (*PAPER_MODES, "planes")
"""All modes; ``planes`` is the codec of wire format version 2."""
DEFAULT_MODE: Mode = "bounded"


@dataclass(frozen=True)
class Parameters:
    """The three numbers of the paper's lane codec, in units of the biased exponent (section 1).

    Lanes below ``e0`` are dropped, lanes from ``t`` on keep 16 bits; ``b`` is the exponent that the 8-bit
    class is normalised to.
    """

    e0: int
    t: int
    b: int

    @property
    def valid(self) -> bool:
        """Whether hardware compresses with these numbers: ``1 <= e0 <= t <= 127``, ``t <= b <= 255``."""
        return 1 <= self.e0 <= self.t <= EXPONENT_BIAS and self.t <= self.b <= 255


@dataclass(frozen=True)
class PlanesParameters:
    """The planes codec's one number (section 9): ``e0 = 127 - k`` for an error bound of ``2**-k``."""

    e0: int

    @property
    def valid(self) -> bool:
        """Whether an encoder and a decoder take this number: ``113 <= e0 <= 126``."""
        return MIN_K <= EXPONENT_BIAS - self.e0 <= MAX_K


def parameters(k: int, mode: str) -> Parameters:
    """E0, T and B of the paper's codec for an error bound of ``2**-k``.

    Raises ``ValueError`` for a ``k`` outside 1..14 or a mode that is not of the paper's codec.
    """
    if mode not in PAPER_MODES:
        raise ValueError(f"mode must be one of {', '.join(PAPER_MODES)}, not {mode!r}")
    e0 = planes_parameters(k).e0
    t = e0 + (k + 1) // 2
    return Parameters(e0=e0, t=t, b=EXPONENT_BIAS if mode == "literal" else t)


def planes_parameters(k: int) -> PlanesParameters:
    """E0 of the planes codec for an error bound of ``2**-k``.

    Raises ``ValueError`` for a ``k`` outside 1..14.
    """
    if not MIN_K <= k <= MAX_K:
        raise ValueError(f"error bound must be 2**-k with k in {MIN_K}..{MAX_K}, not k = {k!r}")
    return PlanesParameters(EXPONENT_BIAS - k)


def error_bound_exponent(error_bound: float) -> int:
    """The k of an error bound of ``2**-k``.

    Raises ``TypeError`` for what is not a number and ``ValueError`` for one that is not 2**-k with
    k = 1..14; both messages end with the offending value.
    """
    rule = f"error bound must be 2**-k with k in {MIN_K}..{MAX_K}"
    if isinstance(error_bound, bool | str | bytes) or not hasattr(error_bound, "__float__"):
        raise TypeError(f"{rule}, not {error_bound!r}")
    try:
        fraction, exponent = math.frexp(error_bound)
    except OverflowError:  # an integer beyond the range of floats
        fraction, exponent = 1.0, 0
    if fraction != 0.5 or not MIN_K <= 1 - exponent <= MAX_K:
        hint = f" (2**-{error_bound:g}?)" if error_bound in range(2, MAX_K + 1) else ""
        raise ValueError(f"{rule}{hint}, not {error_bound!r}")
    return 1 - exponent


# The shim (section 3).
SHIM_MAGIC = 0x494E
SHIM_VERSION = 0x01
"""The paper's codec; byte 3 of the shim is B."""
SHIM_VERSION_PLANES = 0x02
"""The planes codec; byte 3 of the shim is E0."""
CODECS = ("paper", "planes")
SHIM_VERSIONS = dict(zip(CODECS, (SHIM_VERSION, SHIM_VERSION_PLANES), strict=True))
"""Version in the shim, by codec."""
SHIM_BYTES = 8

# Eligibility (section 3).
DEFAULT_TOS = 0x28
DEFAULT_TOS_MASK = 0xFC
"""All but the two ECN bits, which belong to the network (RFC 3168)."""
DEFAULT_MIN_PAYLOAD = 64
DEFAULT_MAX_PAYLOAD = MAX_LANES * LANE_BYTES
MAX_TRANSMIT_FRAME = 16384
"""Longest frame, in bytes, that the compression engine holds whole; a longer one passes."""

ETHERTYPE_IPV4 = 0x0800
ETHERTYPE_IPV6 = 0x86DD
ETHERTYPE_VLAN = 0x8100
ETHERTYPE_SERVICE_VLAN = 0x88A8
PROTOCOL_TCP = 6
PROTOCOL_UDP = 17

FLOW_TABLE_SIZE = 1024
"""Entries of the transmit engine's direct-mapped flow-phase table."""


def flow_index(source: int, destination: int, source_port: int, destination_port: int) -> int:
    """Slot of a TCP flow in the flow-phase table, 0..1023.

    ``source`` and ``destination`` are IPv4 addresses as 32-bit integers. The 96-bit key is folded by
    exclusive or into 16 bits, then into 10. Parts are rotated first, so that a flow and its mirror image, or
    neighbours in a subnet, do not cancel.
    """

    def rotate(word: int, n: int) -> int:
        return ((word << n) | (word >> (16 - n))) & 0xFFFF

    fold = (
        (source & 0xFFFF)
        ^ rotate(source >> 16, 3)
        ^ rotate(destination & 0xFFFF, 5)
        ^ rotate(destination >> 16, 7)
        ^ source_port
        ^ rotate(destination_port, 9)
    )
    return (fold ^ (fold >> 10)) & (FLOW_TABLE_SIZE - 1)


class Verdict(IntEnum):
    """What an engine decided about a frame; each has its own counter.

    The first check that holds is the verdict. The common header checks come first, in the order of the values
    from ``BAD`` to ``NO_CHECKSUM``. The exception is ``LONG`` (transmit only), which is also checked directly
    after ``DISABLED`` for frames of more than ``MAX_TRANSMIT_FRAME`` bytes.
    """

    COMPRESSED = 0
    """Transmit: the payload left as shim and block."""
    RESTORED = 1
    """Receive: shim and block became the payload again."""
    BAD = 2
    """The frame arrived marked bad (``tuser`` at ``tlast``) and leaves marked bad."""
    DISABLED = 3
    """The engine is switched off, or (transmit) E0, T, B are not valid."""
    TRUNCATED = 4
    """The frame ends inside a header it needs."""
    VLAN_STACK = 5
    """More than one VLAN tag, or an 802.1ad service tag."""
    IPV6 = 6
    NOT_IPV4 = 7
    """Any other EtherType (ARP, 802.3 length, ...) or an IP version that is not 4."""
    UNTAGGED = 8
    """``(ToS & mask) != tos``."""
    IP_OPTIONS = 9
    """IHL is not 5."""
    FRAGMENT = 10
    PROTOCOL = 11
    """Neither TCP nor UDP."""
    LENGTHS = 12
    """Frame, IP, TCP data offset or UDP length contradict each other."""
    SYN = 13
    """A TCP segment with SYN."""
    NO_CHECKSUM = 14
    """UDP with a zero checksum."""
    SHORT = 15
    """Transmit: payload shorter than the configured minimum (a pure ACK, say)."""
    LONG = 16
    """Transmit: payload longer than the configured maximum, or the frame longer than the engine holds."""
    ALIGNMENT = 17
    """Transmit: payload length is not a multiple of 4."""
    PHASE = 18
    """Transmit: the segment starts off its flow's 4-byte grid."""
    EXPANDED = 19
    """Transmit: shim and block would not be shorter than the payload."""
    AMBIGUOUS = 20
    """Transmit: the wire form would pass the end host's checksum test as it is."""
    NO_SHIM = 21
    """Receive: no magic after the headers; an ordinary packet with the same ToS."""
    BAD_SHIM = 22
    """Receive: the magic is there but another field of the shim is not valid."""
    MALFORMED = 23
    """Receive: valid shim, but the block is cut short, too long, or holds an impossible vector."""
