# SPDX-License-Identifier: BSD-2-Clause
"""Frames: the shim, which frames are eligible, and the verdicts (sections 3 to 5)."""

from enum import IntEnum

from .lanes import LANE_BYTES, MAX_LANES

# The shim (section 3).
SHIM_MAGIC = 0x494E
SHIM_BYTES = 8

# Eligibility (section 3).
DEFAULT_TOS = 0x28
DEFAULT_BF16_TOS = 0x2C
"""ToS byte of frames with bf16 lanes (section 10)."""
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
"""Entries of the transmit engine's flow-phase table."""
FLOW_TABLE_WAYS = 2
"""Entries of each set of that table; a flow may be in any entry of its set."""


def flow_index(source: int, destination: int, source_port: int, destination_port: int) -> int:
    """Return the set of a TCP flow in the flow-phase table, 0..511.

    ``source`` and ``destination`` are IPv4 addresses as 32-bit integers. The 96-bit key is folded by
    exclusive or into 16 bits, then into 9. Parts are rotated first, so that a flow and its mirror image, or
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
    return (fold ^ (fold >> 7)) & (FLOW_TABLE_SIZE // FLOW_TABLE_WAYS - 1)


class Verdict(IntEnum):
    """An engine's decision about a frame; each has its own counter.

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
    UNKNOWN_FLOW = 24
    """Transmit: no SYN told on which 4-byte grid the segment's flow lies. It is judged where ``PHASE`` is."""
