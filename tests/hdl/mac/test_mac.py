# SPDX-License-Identifier: BSD-2-Clause
"""The MAC behind RGMII and RMII in simulation, at each speed."""

from pathlib import Path
from typing import Any

import pytest
from amaranth.hdl import Cat, ClockSignal, DomainRenamer, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from clock_ports import add_domains

from inceptionn.hdl.mac.octets import Octet, Speed
from inceptionn.hdl.mac.port import EthernetPort, PortEvents
from inceptionn.hdl.mac.receiver import MacReceiver, ReceiveEvents
from inceptionn.hdl.mac.rgmii import LinkStatus, RgmiiReceive, RgmiiTransmit
from inceptionn.hdl.mac.rmii import RmiiReceive, RmiiTransmit
from inceptionn.hdl.mac.transmitter import MacTransmitter
from inceptionn.hdl.parts.axi import AXIStream
from inceptionn.hdl.verilog import convert
from inceptionn.sim.runner import run_bench

RGMII = wiring.Signature(
    {
        "txd": Out(4),
        "tx_ctl": Out(1),
        "tx_clk": Out(1),
        "rxd": In(4),
        "rx_ctl": In(1),
        "speed": In(2),
        "status": Out(LinkStatus),
    }
)


class RgmiiPads(wiring.Component):
    """RGMII with the pads' double-data-rate cells described by clock levels.

    ``tx_clk`` comes of the domain ``late``, a quarter of a cycle after ``transmit``, as a pad's delay would
    make it.
    """

    rgmii: Out(RGMII)
    sent: In(stream.Signature(Octet))
    received: Out(stream.Signature(Octet, always_ready=True))

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.transmit = transmit = DomainRenamer("transmit")(RgmiiTransmit())
        m.submodules.receive = receive = DomainRenamer("receive")(RgmiiReceive())
        wiring.connect(m, wiring.flipped(self.sent), transmit.octets)
        wiring.connect(m, receive.octets, wiring.flipped(self.received))
        m.d.comb += [
            transmit.speed.eq(self.rgmii.speed),
            receive.gigabit.eq(self.rgmii.speed[1]),
            self.rgmii.status.eq(receive.status),
        ]

        # Outputs: the first half of the cycle while the clock is high.
        clock = Signal(2)
        m.d.late += clock.eq(transmit.clock)
        half = Mux(ClockSignal("transmit"), transmit.pins.rise.as_value(), transmit.pins.fall.as_value())
        m.d.comb += [
            self.rgmii.txd.eq(half[:4]),
            self.rgmii.tx_ctl.eq(half[4]),
            self.rgmii.tx_clk.eq(Mux(ClockSignal("late"), clock[0], clock[1])),
        ]

        # Inputs: both edges are handed over with the next rising one.
        rise = Signal(5, reset_less=True)
        fall = Signal(5, reset_less=True)
        taken = Signal(5)
        m.d.comb += [taken[:4].eq(self.rgmii.rxd), taken[4].eq(self.rgmii.rx_ctl)]
        m.d.receive += rise.eq(taken)
        m.d.falling += fall.eq(taken)
        handed = Signal(10, reset_less=True)
        m.d.receive += handed.eq(Cat(rise, fall))
        m.d.comb += receive.pins.eq(handed)
        return m


class RgmiiMac(wiring.Component):
    """A MAC with RGMII pins; ``clk_late`` is a quarter of a cycle after ``clk``."""

    clk: In(1)
    clk_late: In(1)
    rst: In(1)
    rx_clk: In(1)
    rgmii: Out(RGMII)
    s_axis: In(AXIStream(1))
    m_axis: Out(AXIStream(1))
    underrun: Out(1)
    events: Out(ReceiveEvents)

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        late, receive = (self.clk_late, self.rst), (self.rx_clk, self.rst)
        add_domains(m, transmit=(self.clk, self.rst), late=late, receive=receive, falling=receive)
        m.submodules.transmitter = transmitter = DomainRenamer("transmit")(MacTransmitter())
        m.submodules.receiver = receiver = DomainRenamer("receive")(MacReceiver())
        m.submodules.pads = pads = RgmiiPads()
        wiring.connect(m, wiring.flipped(self.s_axis), transmitter.s_axis)
        wiring.connect(m, transmitter.octets, pads.sent)
        wiring.connect(m, pads.received, receiver.octets)
        wiring.connect(m, receiver.m_axis, wiring.flipped(self.m_axis))
        wiring.connect(m, pads.rgmii, wiring.flipped(self.rgmii))
        m.d.comb += [self.underrun.eq(transmitter.underrun), self.events.eq(receiver.events)]
        return m


class RgmiiPort(wiring.Component):
    """A port with RGMII pins, three clocks, and a reset for each."""

    clk: In(1)
    rst: In(1)
    tx_clk125: In(1)
    clk_late: In(1)
    tx_rst: In(1)
    rx_clk: In(1)
    rx_rst: In(1)
    rgmii: Out(RGMII)
    s_axis: In(AXIStream(32))
    m_axis: Out(AXIStream(32))
    events: Out(PortEvents)

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        late, receive = (self.clk_late, self.tx_rst), (self.rx_clk, self.rx_rst)
        add_domains(m, sync=(self.clk, self.rst), transmit=(self.tx_clk125, self.tx_rst))
        add_domains(m, late=late, receive=receive, falling=receive)
        m.submodules.port = port = EthernetPort(
            receive_domain="receive", transmit_domain="transmit", wide_bytes=32
        )
        m.submodules.pads = pads = RgmiiPads()
        wiring.connect(m, wiring.flipped(self.s_axis), port.s_axis)
        wiring.connect(m, port.m_axis, wiring.flipped(self.m_axis))
        wiring.connect(m, port.sent, pads.sent)
        wiring.connect(m, pads.received, port.received)
        wiring.connect(m, pads.rgmii, wiring.flipped(self.rgmii))
        m.d.comb += self.events.eq(port.events)
        return m


class RmiiMac(wiring.Component):
    """A MAC with RMII pins, in one clock."""

    clk: In(1)
    rst: In(1)
    speed: In(2)
    txd: Out(2)
    tx_en: Out(1)
    rxd: In(2)
    crs_dv: In(1)
    rx_er: In(1)
    s_axis: In(AXIStream(1))
    m_axis: Out(AXIStream(1))
    underrun: Out(1)
    events: Out(ReceiveEvents)

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        add_domains(m, sync=(self.clk, self.rst))
        m.submodules.transmitter = transmitter = MacTransmitter()
        m.submodules.rmii_transmit = transmit = RmiiTransmit()
        m.submodules.rmii_receive = receive = RmiiReceive()
        m.submodules.receiver = receiver = MacReceiver()
        wiring.connect(m, wiring.flipped(self.s_axis), transmitter.s_axis)
        wiring.connect(m, transmitter.octets, transmit.octets)
        wiring.connect(m, receive.octets, receiver.octets)
        wiring.connect(m, receiver.m_axis, wiring.flipped(self.m_axis))
        m.d.comb += [
            transmit.slow.eq(self.speed == Speed.MBIT_10),
            receive.slow.eq(self.speed == Speed.MBIT_10),
            receive.rxd.eq(self.rxd),
            receive.crs_dv.eq(self.crs_dv),
            receive.rx_er.eq(self.rx_er),
            self.txd.eq(transmit.txd),
            self.tx_en.eq(transmit.tx_en),
            self.underrun.eq(transmitter.underrun),
            self.events.eq(receiver.events),
        ]
        return m


_MACS = {"rgmii": RgmiiMac, "rmii": RmiiMac}


@pytest.mark.parametrize(
    ("interface", "speed"),
    [
        *(("rgmii", 1000), ("rgmii", 100), ("rmii", 100)),
        pytest.param("rgmii", 10, marks=pytest.mark.slow),
        pytest.param("rmii", 10, marks=pytest.mark.exhaustive),
    ],
)
def test_bench(interface: str, speed: int, tmp_path: Path) -> None:
    source = tmp_path / f"{interface}_mac.v"
    source.write_text(convert(_MACS[interface](), f"{interface}_mac", has_clocks=True))
    parameters = {"interface": interface, "speed": speed}
    run_bench(source, source.stem, Path(__file__).with_name("mac_bench.py"), parameters=parameters)


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = tmp_path_factory.mktemp("port") / "rgmii_port.v"
    source.write_text(convert(RgmiiPort(), "rgmii_port", has_clocks=True))
    return source


@pytest.mark.parametrize(
    ("speed", "clock_ps"),
    [
        (1000, 20_000),
        pytest.param(1000, 5_000, marks=pytest.mark.slow),
        pytest.param(100, 20_000, marks=pytest.mark.exhaustive),
    ],
)
def test_port(speed: int, clock_ps: int, port: Path) -> None:
    parameters = {"speed": speed, "clock_ps": clock_ps}
    run_bench(port, "rgmii_port", Path(__file__).with_name("port_bench.py"), parameters=parameters)
