# SPDX-License-Identifier: BSD-2-Clause
"""The comparator that finds tagged packets (paper, section VI-B)."""

from typing import Any

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out


class TosMatcher(wiring.Component):
    """Compares a packet's ToS byte with the tag, in the bits of a mask. Combinational.

    The default mask excludes the two ECN bits, which routers may set (RFC 3168).
    """

    tos: In(8)  #: ToS byte of the packet.
    config_tos: In(8)  #: ToS byte to compare with.
    config_mask: In(8)  #: Bits that are compared.
    match: Out(1)  #: ``(tos & mask) == (config_tos & mask)``.

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.d.comb += self.match.eq(((self.tos ^ self.config_tos) & self.config_mask) == 0)
        return m
