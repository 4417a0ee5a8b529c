# SPDX-License-Identifier: BSD-2-Clause
"""The streams between a MAC and its media interface: one octet per octet time (IEEE 802.3, clause 35)."""

from enum import IntEnum

from amaranth.lib import data

PREAMBLE = 0x55
START = 0xD5
"""The start frame delimiter."""
FCS_BYTES = 4
MIN_FRAME = 64
"""Shortest legal frame with its FCS."""
MAC_CONTROL = 0x8808
"""EtherType of PAUSE (clause 31): frames of the link, not of the network."""


class Speed(IntEnum):
    """Bit rate, as RGMII's in-band status encodes it."""

    MBIT_10 = 0
    MBIT_100 = 1
    MBIT_1000 = 2


class Octet(data.Struct):
    """A frame is a run of active octets (preamble, start delimiter, data, FCS) and an idle one after it."""

    data: 8
    active: 1
    error: 1  # it is spoilt; of the idle one after a frame: the frame ended inside an octet, or had no start
