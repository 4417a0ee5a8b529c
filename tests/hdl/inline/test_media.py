# SPDX-License-Identifier: BSD-2-Clause
"""The link of a port in simulation: what the PHY says, and how it reaches the other clocks."""

from pathlib import Path
from typing import Any

from amaranth.hdl import DomainRenamer, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from inceptionn.hdl.inline.media import MAC_DOMAIN, RgmiiMedium, stable
from inceptionn.hdl.inline.port_page import Link
from inceptionn.hdl.mac.rgmii import Edges
from inceptionn.sim.runner import run_bench


class MediumInOneClock(wiring.Component):
    """A medium whose domains are all ``sync``, and a value that crosses from it to itself."""

    host_rx: In(Edges)
    managed: In(Link)
    link: Out(Link)
    value: In(2)
    stable: Out(2)

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        medium = RgmiiMedium("host")
        one = DomainRenamer({medium.receive_domain: "sync", MAC_DOMAIN: "sync"})
        m.submodules.medium = one(medium)
        m.d.comb += [
            medium.pins.rx.eq(self.host_rx),
            medium.managed.eq(self.managed),
            self.link.eq(medium.link),
            self.stable.eq(stable(m, "crossing", self.value, "sync")),
        ]
        return m


def test_bench() -> None:
    bench = Path(__file__).with_name("media_bench.py")
    run_bench(MediumInOneClock(), "medium_in_one_clock", bench)
