# SPDX-License-Identifier: BSD-2-Clause
"""Circuits with several clocks, whose clocks and resets a bench drives."""

from typing import Any

from amaranth.hdl import ClockDomain, Module, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In


def add_domains(m: Module, **clocks: tuple[Value, Value]) -> None:
    """Clock domains of these clocks and resets; ``falling`` counts the falling edges."""
    for name, (clock, reset) in clocks.items():
        domain = ClockDomain(name, clk_edge="neg" if name == "falling" else "pos")
        domain.clk, domain.rst = clock, reset
        m.domains += domain


class ClockPorts(wiring.Component):
    """A component, with the clock and the reset of each of its ``domains`` as ports."""

    def __init__(self, inner: wiring.Component, *domains: str) -> None:
        self.inner, self.domains = inner, domains
        clocks = {f"{domain}_{name}": In(1) for domain in domains for name in ("clk", "rst")}
        super().__init__({**clocks, **dict(inner.signature.members.items())})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        pairs = {name: (getattr(self, f"{name}_clk"), getattr(self, f"{name}_rst")) for name in self.domains}
        add_domains(m, **pairs)
        m.submodules.inner = self.inner
        for name, member in self.inner.signature.members.items():
            outer, inner = getattr(self, name), getattr(self.inner, name)
            if member.is_signature:
                wiring.connect(m, wiring.flipped(outer), inner)
            else:
                m.d.comb += inner.eq(outer) if member.flow is In else outer.eq(inner)
        return m
