# SPDX-License-Identifier: BSD-2-Clause
"""The inline device with a board's pins, clocks, resets and PHYs."""

from typing import Any

from amaranth.hdl import ClockDomain, ClockSignal, Const, Elaboratable, Instance, Module, Signal
from amaranth.lib import io, wiring
from amaranth.lib.cdc import FFSynchronizer, ResetSynchronizer
from amaranth.lib.wiring import Out

from inceptionn.hdl.codec.codecs import PAPER
from inceptionn.hdl.inline.device import ENGINE_HZ, InlineDevice
from inceptionn.hdl.inline.media import MAC_DOMAIN
from inceptionn.hdl.inline.port_page import Link
from inceptionn.hdl.inline.registers import PORTS
from inceptionn.hdl.mac.mdio import Mdio
from inceptionn.hdl.mac.octets import Speed
from inceptionn.hdl.mac.phy_monitor import PhyMonitor

from .pads import RgmiiPads, RmiiPads
from .recipes import PortRecipe, Recipe

MAC_HZ = 125_000_000
RECEIVE_HZ = {"rgmii": 125_000_000, "rmii": 50_000_000}
"""Frequency of a medium's receive clock, which the PHY makes."""
_MDC_HALF = ENGINE_HZ // (2 * 2_500_000)


class EngineClocks(Elaboratable):
    """125 MHz (``mac``) and 50 MHz (``sync``) from the board's 100 MHz by a PLL (Lattice FPGA-TN-02200).

    100 MHz / 4 * 5 = 125 MHz with the oscillator at 500 MHz, whose tenth is 50 MHz. ``locked`` is high when
    both are good.
    """

    def __init__(self, source: Signal):
        self.source = source
        self.locked = Signal()

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.pll = Instance(
            "EHXPLLL",
            a_FREQUENCY_PIN_CLKI="100",
            a_FREQUENCY_PIN_CLKOP="125",
            a_FREQUENCY_PIN_CLKOS="50",
            a_ICP_CURRENT="12",
            a_LPF_RESISTOR="8",
            p_CLKI_DIV=4,
            p_CLKFB_DIV=5,
            p_FEEDBK_PATH="CLKOP",
            p_CLKOP_ENABLE="ENABLED",
            p_CLKOP_DIV=4,
            p_CLKOP_CPHASE=3,
            p_CLKOP_FPHASE=0,
            p_CLKOS_ENABLE="ENABLED",
            p_CLKOS_DIV=10,
            p_CLKOS_CPHASE=9,
            p_CLKOS_FPHASE=0,
            i_CLKI=self.source,
            i_CLKFB=ClockSignal(MAC_DOMAIN),
            i_RST=Const(0),
            i_STDBY=Const(0),
            i_PHASESEL0=Const(0),
            i_PHASESEL1=Const(0),
            i_PHASEDIR=Const(1),
            i_PHASESTEP=Const(1),
            i_PHASELOADREG=Const(1),
            i_PLLWAKESYNC=Const(0),
            i_ENCLKOP=Const(0),
            i_ENCLKOS=Const(0),
            o_CLKOP=ClockSignal(MAC_DOMAIN),
            o_CLKOS=ClockSignal("sync"),
            o_LOCK=self.locked,
        )
        return m


class PhyManagement(wiring.Component):
    """A PHY's reset and MDIO pins; ``link`` is the state that its registers report.

    Parameters
    ----------
    resource
        The board's resource, requested without buffers: mdc, mdio, rst.
    phy : :class:`int`
        The address that is tried first.
    fastest : :class:`Speed`
    """

    link: Out(Link)  #: What the PHY's registers say.

    def __init__(self, resource: Any, *, phy: int, fastest: Speed):
        self.resource = resource
        self.phy = phy
        self.fastest = fastest
        super().__init__()

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.mdio = mdio = Mdio(_MDC_HALF)
        m.submodules.monitor = monitor = PhyMonitor(ENGINE_HZ, phy=self.phy, fastest=self.fastest)
        m.submodules.mdc_pin = mdc = io.Buffer("o", self.resource.mdc)
        m.submodules.mdio_pin = data = io.Buffer("io", self.resource.mdio)
        m.submodules.reset_pin = reset = io.Buffer("o", self.resource.rst)
        m.submodules.mdio_in = FFSynchronizer(data.i, mdio.mdio_in, init=1)
        wiring.connect(m, monitor.requests, mdio.requests)
        wiring.connect(m, mdio.values, monitor.values)
        m.d.comb += [
            mdc.o.eq(mdio.mdc),
            data.o.eq(mdio.mdio_out),
            data.oe.eq(mdio.mdio_enable),
            reset.o.eq(monitor.phy_reset),
            self.link.up.eq(monitor.up),
            self.link.speed.eq(monitor.speed),
            self.link.managed.eq(monitor.managed),
        ]
        return m


class InlineTop(Elaboratable):
    """For ``platform.build``: :class:`InlineDevice` with everything around it.

    Parameters
    ----------
    recipe : :class:`Recipe`
    codec : :class:`str` or None
        As of :class:`InlineDevice`, as is ``bf16``.
    """

    def __init__(self, recipe: Recipe, codec: str | None = PAPER, bf16: bool = False):
        self.recipe = recipe
        self.codec = codec
        self.bf16 = bf16

    def clocks(self) -> dict[str, int]:
        """Return the frequency in Hz of each clock of the design, by the end of its net's name."""
        receive = {f"{name}_rx_clk": RECEIVE_HZ[getattr(self.recipe, name).interface] for name in PORTS}
        return {"mac_clk": MAC_HZ, "clk": ENGINE_HZ, **receive}

    def fabric_clocks(self) -> int:
        """Count the clocks that may enter through general routing.

        They are RMII's, where the falling edge samples.
        """
        return sum(getattr(self.recipe, name).interface == "rmii" for name in PORTS)

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        recipe = self.recipe
        m.submodules.device = device = InlineDevice(
            host=recipe.host.interface, network=recipe.network.interface, codec=self.codec, bf16=self.bf16
        )
        domains = ["sync", MAC_DOMAIN, *(medium.receive_domain for medium in device.media.values())]
        for domain in domains:
            m.domains += ClockDomain(domain)

        m.submodules.input = source = io.Buffer("i", platform.request(platform.default_clk, 0, dir="-"))
        m.submodules.button = button = io.Buffer("i", platform.request(platform.default_rst, 0, dir="-"))
        m.submodules.clocks = clocks = EngineClocks(source.i)
        stopped = Signal()
        m.d.comb += stopped.eq(button.i | ~clocks.locked)
        for domain in domains:
            m.submodules[f"{domain}_reset"] = ResetSynchronizer(stopped, domain=domain)

        for name in PORTS:
            self._port(m, platform, device, name, getattr(recipe, name))
        serial = platform.request("uart", 0, dir={"rx": "-", "tx": "-"})
        m.submodules.rx = rx = io.Buffer("i", serial.rx)
        m.submodules.tx = tx = io.Buffer("o", serial.tx)
        m.d.comb += [device.rx.eq(rx.i), tx.o.eq(device.tx)]
        return m

    @staticmethod
    def _port(m: Module, platform: Any, device: InlineDevice, name: str, port: PortRecipe) -> None:
        resource = platform.request(port.resource, port.number, dir="-")
        medium = device.media[name]
        if port.interface == "rgmii":
            pads: Any = RgmiiPads(resource, medium, transmit_ps=port.transmit_ps, receive_ps=port.receive_ps)
            clock = resource.rx_clk
        else:
            pads = RmiiPads(resource, medium)
            clock = resource.ref_clk
        m.submodules[f"{name}_pads"] = pads
        wiring.connect(m, getattr(device, name), pads.pins)
        platform.add_clock_constraint(clock.io, RECEIVE_HZ[port.interface])
        management = PhyManagement(resource, phy=port.phy, fastest=medium.FASTEST)
        m.submodules[f"{name}_management"] = management
        m.d.comb += getattr(device, f"{name}_managed").eq(management.link)
