# SPDX-License-Identifier: BSD-2-Clause
"""The PHY's management in simulation: registers written once, then the link as it changes."""

from pathlib import Path
from typing import Any

import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from inceptionn.hdl.mac.mdio import Mdio, MdioSharing
from inceptionn.hdl.mac.octets import Speed
from inceptionn.hdl.mac.phy_monitor import PhyMonitor
from inceptionn.sim.runner import run_bench

CLOCK_HZ = 20_000
"""So slow that a tenth of a second is a few thousand cycles."""


class ManagedPhy(wiring.Component):
    """The monitor with its wires."""

    mdc: Out(1)
    mdio_out: Out(1)
    mdio_enable: Out(1)
    mdio_in: In(1)
    phy_reset: Out(1)
    managed: Out(1)
    up: Out(1)
    speed: Out(2)

    def __init__(self, phy: int, fastest: Speed):
        self.phy = phy
        self.fastest = fastest
        super().__init__()

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.mdio = mdio = Mdio(2)
        m.submodules.monitor = monitor = PhyMonitor(CLOCK_HZ, phy=self.phy, fastest=self.fastest)
        wiring.connect(m, monitor.requests, mdio.requests)
        wiring.connect(m, mdio.values, monitor.values)
        m.d.comb += mdio.mdio_in.eq(self.mdio_in)
        shown = {mdio: ("mdc", "mdio_out", "mdio_enable"), monitor: ("phy_reset", "managed", "up", "speed")}
        for part, names in shown.items():
            m.d.comb += [getattr(self, name).eq(getattr(part, name)) for name in names]
        return m


class SharedPhys(wiring.Component):
    """Two monitors on one pair of wires."""

    mdc: Out(1)
    mdio_out: Out(1)
    mdio_enable: Out(1)
    mdio_in: In(1)
    phy_reset: Out(1)
    managed: Out(1)
    up: Out(1)
    speed: Out(2)
    other_managed: Out(1)
    other_up: Out(1)
    other_speed: Out(2)

    def __init__(self, phy: int):
        self.phy = phy
        super().__init__()

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.mdio = mdio = Mdio(2)
        m.submodules.sharing = sharing = MdioSharing()
        wiring.connect(m, sharing.m_requests, mdio.requests)
        wiring.connect(m, mdio.values, sharing.m_values)
        m.d.comb += mdio.mdio_in.eq(self.mdio_in)
        m.d.comb += [
            getattr(self, name).eq(getattr(mdio, name)) for name in ("mdc", "mdio_out", "mdio_enable")
        ]
        for number, prefix in enumerate(("", "other_")):
            monitor = PhyMonitor(CLOCK_HZ, phy=self.phy + number, fastest=Speed.MBIT_1000, searches=False)
            m.submodules[f"monitor{number}"] = monitor
            wiring.connect(m, monitor.requests, sharing.requests[number])
            wiring.connect(m, sharing.values[number], monitor.values)
            shown = ("managed", "up", "speed", *(() if number else ("phy_reset",)))
            m.d.comb += [getattr(self, prefix + name).eq(getattr(monitor, name)) for name in shown]
        return m


@pytest.mark.parametrize(
    ("phy", "fastest"),
    [
        (0, Speed.MBIT_1000),
        pytest.param(5, Speed.MBIT_100, marks=pytest.mark.slow),
        (31, Speed.MBIT_10),
    ],
)
def test_bench(phy: int, fastest: Speed) -> None:
    bench = Path(__file__).with_name("phy_monitor_bench.py")
    parameters = {"phy": phy, "fastest": int(fastest), "clock_hz": CLOCK_HZ}
    run_bench(ManagedPhy(phy, fastest), f"managed_phy_{phy}", bench, parameters=parameters)


def test_two_phys_on_one_bus() -> None:
    bench = Path(__file__).with_name("phy_monitor_bench.py")
    parameters = {"phy": 0, "fastest": int(Speed.MBIT_1000), "clock_hz": CLOCK_HZ, "shared": True}
    run_bench(SharedPhys(0), "shared_phys", bench, parameters=parameters)
