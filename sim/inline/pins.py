# SPDX-License-Identifier: BSD-2-Clause
"""The inline device as a module whose clocks and resets are ports."""

from typing import Any

from amaranth.hdl import ClockDomain, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from inceptionn.hdl.inline.device import InlineDevice
from inceptionn.hdl.inline.media import MAC_DOMAIN

DOMAINS = ("sync", MAC_DOMAIN, "host_rx", "network_rx")
"""Clock domains of a device, in the order of the harness."""


def _pins(domain: str) -> tuple[str, str]:
    """Return the names of a domain's clock and reset."""
    prefix = "" if domain == "sync" else f"{domain}_"
    return f"{prefix}clk", f"{prefix}rst"


class InlinePins(wiring.Component):
    """`InlineDevice` with its members and, per domain, a clock and an active-high reset."""

    def __init__(self, device: InlineDevice):
        self.device = device
        clocks = {name: In(1) for domain in DOMAINS for name in _pins(domain)}
        super().__init__({**clocks, **device.signature.members})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        for name in DOMAINS:
            clock, reset = _pins(name)
            domain = ClockDomain(name)
            domain.clk, domain.rst = getattr(self, clock), getattr(self, reset)
            m.domains += domain
        m.submodules.device = self.device
        for name, member in self.device.signature.members.items():
            inner, outer = getattr(self.device, name), getattr(self, name)
            if member.is_signature:
                wiring.connect(m, inner, wiring.flipped(outer))
            elif member.flow == In:
                m.d.comb += inner.eq(outer)
            else:
                m.d.comb += outer.eq(inner)
        return m
