# SPDX-License-Identifier: BSD-2-Clause
"""The inline device with a board's pins, clocks, resets and PHYs."""

from typing import Any

from amaranth.hdl import ClockDomain, ClockSignal, Const, Elaboratable, Instance, Module, Signal, Value
from amaranth.lib import data, io, wiring
from amaranth.lib.cdc import FFSynchronizer, ResetSynchronizer
from amaranth.lib.wiring import In, Out

from inceptionn.hdl.codec.codecs import PAPER
from inceptionn.hdl.inline.device import InlineDevice
from inceptionn.hdl.inline.media import MAC_DOMAIN
from inceptionn.hdl.inline.port_page import Link
from inceptionn.hdl.inline.registers import PORTS
from inceptionn.hdl.mac.mdio import Mdio, MdioSharing
from inceptionn.hdl.mac.octets import Speed
from inceptionn.hdl.mac.phy_monitor import PhyMonitor
from inceptionn.wire import GROUP_LANES

from .pads import RgmiiPads, RmiiPads
from .recipes import PortRecipe, Recipe

MAC_HZ = 125_000_000
RECEIVE_HZ = {"rgmii": 125_000_000, "rmii": 50_000_000}
"""Frequency of a medium's receive clock, which the PHY makes."""
OSCILLATOR_HZ = 2_421_875
"""The FPGA's oscillator, 310 MHz / 128, give or take 15 % (Lattice FPGA-TN-02200)."""
_REFERENCE_HZ = 25_000_000
_OSCILLATOR_DIVISOR = 128


class EngineClocks(Elaboratable):
    """125 MHz (``mac``) and the engines' clock (``sync``) from the board's by a PLL (Lattice FPGA-TN-02200).

    25 MHz * 5 = 125 MHz with the oscillator at 500 MHz, of which ``sync`` is a fraction. ``locked`` is high
    when both are good.

    Parameters
    ----------
    source : :class:`Signal`
        The board's clock.
    source_hz : :class:`int`
        A multiple of 25 MHz.
    engine_hz : :class:`int`
        500 MHz divided by a whole number, rounded.
    reset : :class:`Value` or None
        Holds the PLL in reset.
    """

    def __init__(self, source: Signal, source_hz: int, engine_hz: int, reset: Value | None):
        self.source = source
        self.source_hz = source_hz
        self.engine_hz = engine_hz
        self.reset = reset
        self.locked = Signal()

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        engine_divisor = round(4 * MAC_HZ / self.engine_hz)
        m.submodules.pll = Instance(
            "EHXPLLL",
            a_FREQUENCY_PIN_CLKI=f"{self.source_hz / 1e6:g}",
            a_FREQUENCY_PIN_CLKOP="125",
            a_FREQUENCY_PIN_CLKOS=f"{4 * MAC_HZ / 1e6 / engine_divisor:g}",
            a_ICP_CURRENT="12",
            a_LPF_RESISTOR="8",
            p_CLKI_DIV=self.source_hz // _REFERENCE_HZ,
            p_CLKFB_DIV=MAC_HZ // _REFERENCE_HZ,
            p_FEEDBK_PATH="CLKOP",
            p_CLKOP_ENABLE="ENABLED",
            p_CLKOP_DIV=4,
            p_CLKOP_CPHASE=3,
            p_CLKOP_FPHASE=0,
            p_CLKOS_ENABLE="ENABLED",
            p_CLKOS_DIV=engine_divisor,
            p_CLKOS_CPHASE=engine_divisor - 1,
            p_CLKOS_FPHASE=0,
            i_CLKI=self.source,
            i_CLKFB=ClockSignal(MAC_DOMAIN),
            i_RST=Const(0) if self.reset is None else self.reset,
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
            **({} if self.reset is None else {"p_PLLRST_ENA": "ENABLED"}),
        )
        return m


class PowerUp(wiring.Component):
    """Resets PHYs once, by the FPGA's oscillator: where a PHY makes the board's clock, nothing else runs.

    In the domain ``oscillator``, after configuration: both outputs are high for 2^16 cycles (24 to 32 ms),
    ``clocks_reset`` for as long again, until a PHY's clock is there.
    """

    phy_reset: Out(1, init=1)  #: Active high.
    clocks_reset: Out(1, init=1)  #: Of the PLL; active high.

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        count = Signal(17, reset_less=True)
        m.d.oscillator += [self.phy_reset.eq(~count[-1]), self.clocks_reset.eq(~count.all())]
        with m.If(~count.all()):
            m.d.oscillator += count.eq(count + 1)
        return m


def _management_pins(m: Module, resource: Any, mdio: Mdio, phy_reset: Value) -> None:
    """Join the pins mdc, mdio and rst of a resource that was requested without buffers."""
    m.submodules.mdc_pin = mdc = io.Buffer("o", resource.mdc)
    m.submodules.mdio_pin = line = io.Buffer("io", resource.mdio)
    m.submodules.reset_pin = reset = io.Buffer("o", resource.rst)
    m.submodules.mdio_in = FFSynchronizer(line.i, mdio.mdio_in, init=1)
    m.d.comb += [
        mdc.o.eq(mdio.mdc),
        line.o.eq(mdio.mdio_out),
        line.oe.eq(mdio.mdio_enable),
        reset.o.eq(phy_reset),
    ]


def _link(m: Module, monitor: PhyMonitor, link: Any) -> None:
    m.d.comb += [link.up.eq(monitor.up), link.speed.eq(monitor.speed), link.managed.eq(monitor.managed)]


class PhyManagement(wiring.Component):
    """A PHY's reset and MDIO pins; ``link`` is the state that its registers report.

    Parameters
    ----------
    resource
        The board's resource, requested without buffers: mdc, mdio, rst.
    clock_hz : :class:`int`
        Of ``sync``.
    phy : :class:`int`
        The address that is tried first.
    fastest : :class:`Speed`
    """

    link: Out(Link)  #: What the PHY's registers say.

    def __init__(self, resource: Any, *, clock_hz: int, phy: int, fastest: Speed):
        self.resource = resource
        self.clock_hz = clock_hz
        self.phy = phy
        self.fastest = fastest
        super().__init__()

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.mdio = mdio = Mdio(mdc_half(self.clock_hz))
        m.submodules.monitor = monitor = PhyMonitor(self.clock_hz, phy=self.phy, fastest=self.fastest)
        _management_pins(m, self.resource, mdio, monitor.phy_reset)
        wiring.connect(m, monitor.requests, mdio.requests)
        wiring.connect(m, mdio.values, monitor.values)
        _link(m, monitor, self.link)
        return m


class SharedManagement(wiring.Component):
    """Two PHYs on one pair of MDIO wires, with one reset, which others hold.

    Parameters
    ----------
    resource
        The board's resource, requested without buffers: mdc, mdio, rst.
    clock_hz : :class:`int`
        Of ``sync``.
    phys : :class:`tuple` of :class:`int`
        The PHYs' addresses.
    fastest : :class:`Speed`
    """

    phy_reset: In(1)  #: To the pin; active high.
    links: Out(data.ArrayLayout(Link, 2))  #: What the PHYs' registers say.

    def __init__(self, resource: Any, *, clock_hz: int, phys: tuple[int, int], fastest: Speed):
        self.resource = resource
        self.clock_hz = clock_hz
        self.phys = phys
        self.fastest = fastest
        super().__init__()

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.mdio = mdio = Mdio(mdc_half(self.clock_hz))
        m.submodules.sharing = sharing = MdioSharing()
        _management_pins(m, self.resource, mdio, self.phy_reset)
        wiring.connect(m, sharing.m_requests, mdio.requests)
        wiring.connect(m, mdio.values, sharing.m_values)
        for number, phy in enumerate(self.phys):
            monitor = PhyMonitor(self.clock_hz, phy=phy, fastest=self.fastest, searches=False)
            m.submodules[f"monitor{number}"] = monitor
            wiring.connect(m, monitor.requests, sharing.requests[number])
            wiring.connect(m, sharing.values[number], monitor.values)
            _link(m, monitor, self.links[number])
        return m


def mdc_half(clock_hz: int) -> int:
    """Return the cycles of half a period of MDC, which has at most 2.5 MHz."""
    return -(-clock_hz // (2 * 2_500_000))


class InlineTop(Elaboratable):
    """For ``platform.build``: :class:`InlineDevice` with everything around it.

    Parameters
    ----------
    recipe : :class:`Recipe`
    codec : :class:`str` or None
        As of :class:`InlineDevice`, as are ``lanes`` and ``bf16``.
    """

    def __init__(
        self, recipe: Recipe, codec: str | None = PAPER, lanes: int = GROUP_LANES, bf16: bool = False
    ):
        self.recipe = recipe
        self.codec = codec
        self.device = InlineDevice(
            host=recipe.host.interface, network=recipe.network.interface, codec=codec, lanes=lanes, bf16=bf16
        )

    def clocks(self) -> dict[str, int]:
        """Return the frequency in Hz of each clock of the design, by the end of its net's name."""
        receive = {f"{name}_rx_clk": RECEIVE_HZ[getattr(self.recipe, name).interface] for name in PORTS}
        oscillator = {"oscillator_clk": OSCILLATOR_HZ} if self.recipe.shared_management else {}
        return {"mac_clk": MAC_HZ, "clk": self.device.clock_hz, **receive, **oscillator}

    def fabric_clocks(self) -> int:
        """Count the clocks that may enter through general routing.

        They are RMII's, where the falling edge samples.
        """
        return sum(getattr(self.recipe, name).interface == "rmii" for name in PORTS)

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        recipe = self.recipe
        m.submodules.device = device = self.device
        domains = ["sync", MAC_DOMAIN, *(medium.receive_domain for medium in device.media.values())]
        for domain in domains:
            m.domains += ClockDomain(domain)

        power_up = self._power_up(m, platform) if recipe.shared_management else None
        m.submodules.input = source = io.Buffer("i", platform.request(platform.default_clk, 0, dir="-"))
        m.submodules.clocks = clocks = EngineClocks(
            source.i, recipe.clock_hz, device.clock_hz, power_up and power_up.clocks_reset
        )
        stopped = Signal()
        if platform.default_rst is None:
            m.d.comb += stopped.eq(~clocks.locked)
        else:
            button = io.Buffer("i", platform.request(platform.default_rst, 0, dir="-"))
            m.submodules.button = button
            m.d.comb += stopped.eq(button.i | ~clocks.locked)
        for domain in domains:
            m.submodules[f"{domain}_reset"] = ResetSynchronizer(stopped, domain=domain)

        resources = {name: self._port(m, platform, name, getattr(recipe, name)) for name in PORTS}
        if power_up:
            m.submodules.management = shared = SharedManagement(
                platform.request("eth_management", 0, dir="-"), clock_hz=device.clock_hz,
                phys=(recipe.host.phy, recipe.network.phy), fastest=Speed.MBIT_1000,
            )  # fmt: skip
            m.d.comb += shared.phy_reset.eq(power_up.phy_reset)
            links = dict(zip(PORTS, shared.links, strict=True))
        else:
            links = {name: self._management(m, name, resource) for name, resource in resources.items()}
        m.d.comb += [getattr(device, f"{name}_managed").eq(link) for name, link in links.items()]
        serial = platform.request("uart", 0, dir={"rx": "-", "tx": "-"})
        m.submodules.rx = rx = io.Buffer("i", serial.rx)
        m.submodules.tx = tx = io.Buffer("o", serial.tx)
        m.d.comb += [device.rx.eq(rx.i), tx.o.eq(device.tx)]
        return m

    @staticmethod
    def _power_up(m: Module, platform: Any) -> PowerUp:
        m.domains.oscillator = domain = ClockDomain("oscillator", reset_less=True)
        m.submodules.oscillator = Instance("OSCG", p_DIV=_OSCILLATOR_DIVISOR, o_OSC=domain.clk)
        platform.add_clock_constraint(domain.clk, OSCILLATOR_HZ)
        m.submodules.power_up = power_up = PowerUp()
        return power_up

    def _port(self, m: Module, platform: Any, name: str, port: PortRecipe) -> Any:
        """Add a port's pads; return its resource."""
        resource = platform.request(port.resource, port.number, dir="-")
        medium = self.device.media[name]
        if port.interface == "rgmii":
            pads: Any = RgmiiPads(resource, medium, transmit_ps=port.transmit_ps, receive_ps=port.receive_ps)
            clock = resource.rx_clk
        else:
            pads = RmiiPads(resource, medium)
            clock = resource.ref_clk
        m.submodules[f"{name}_pads"] = pads
        wiring.connect(m, getattr(self.device, name), pads.pins)
        platform.add_clock_constraint(clock.io, RECEIVE_HZ[port.interface])
        return resource

    def _management(self, m: Module, name: str, resource: Any) -> Any:
        """Add the management of the only PHY at a port's pins; return its link."""
        phy, fastest = getattr(self.recipe, name).phy, self.device.media[name].FASTEST
        management = PhyManagement(resource, clock_hz=self.device.clock_hz, phy=phy, fastest=fastest)
        m.submodules[f"{name}_management"] = management
        return management.link
