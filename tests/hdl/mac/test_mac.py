# SPDX-License-Identifier: BSD-2-Clause
"""The MAC behind RGMII and RMII in simulation, at each speed."""

from pathlib import Path
from typing import Any

import pytest
from amaranth.hdl import ClockDomain, DomainRenamer, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from inceptionn.hdl.mac.octets import Speed
from inceptionn.hdl.mac.receiver import MacReceiver, ReceiveEvents
from inceptionn.hdl.mac.rgmii import LinkStatus, RgmiiReceive, RgmiiTransmit
from inceptionn.hdl.mac.rmii import RmiiReceive, RmiiTransmit
from inceptionn.hdl.mac.transmitter import MacTransmitter
from inceptionn.hdl.parts.axi import AXIStream
from inceptionn.hdl.verilog import convert
from inceptionn.sim.runner import run_bench


class RgmiiMac(wiring.Component):
    """A MAC with RGMII pins; the pads' double-data-rate cells are described by clock levels.

    ``tx_clk`` comes of ``clk_late``, a quarter of a cycle after ``clk``, as a pad's delay would make it.
    """

    clk: In(1)
    clk_late: In(1)
    rst: In(1)
    speed: In(2)
    txd: Out(4)
    tx_ctl: Out(1)
    tx_clk: Out(1)
    rxd: In(4)
    rx_ctl: In(1)
    rx_clk: In(1)
    s_axis: In(AXIStream(1))
    m_axis: Out(AXIStream(1))
    underrun: Out(1)
    events: Out(ReceiveEvents)
    status: Out(LinkStatus)

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        for name, clock, edge in (
            ("sync", self.clk, "pos"),
            ("late", self.clk_late, "pos"),
            ("receive", self.rx_clk, "pos"),
            ("falling", self.rx_clk, "neg"),
        ):
            domain = ClockDomain(name, clk_edge=edge)
            domain.clk, domain.rst = clock, self.rst
            m.domains += domain
        m.submodules.transmitter = transmitter = MacTransmitter()
        m.submodules.rgmii_transmit = transmit = RgmiiTransmit()
        m.submodules.rgmii_receive = receive = DomainRenamer("receive")(RgmiiReceive())
        m.submodules.receiver = receiver = DomainRenamer("receive")(MacReceiver())
        wiring.connect(m, wiring.flipped(self.s_axis), transmitter.s_axis)
        wiring.connect(m, transmitter.octets, transmit.octets)
        wiring.connect(m, receive.octets, receiver.octets)
        wiring.connect(m, receiver.m_axis, wiring.flipped(self.m_axis))
        m.d.comb += [
            transmit.speed.eq(self.speed),
            receive.gigabit.eq(self.speed[1]),
            self.underrun.eq(transmitter.underrun),
            self.events.eq(receiver.events),
            self.status.eq(receive.status),
        ]

        # Outputs: the first half of the cycle while the clock is high.
        clock = Signal(2)
        m.d.late += clock.eq(transmit.clock)
        half = Mux(self.clk, transmit.pins.rise.as_value(), transmit.pins.fall.as_value())
        m.d.comb += [
            self.txd.eq(half[:4]),
            self.tx_ctl.eq(half[4]),
            self.tx_clk.eq(Mux(self.clk_late, clock[0], clock[1])),
        ]

        # Inputs: both edges are handed over with the next rising one.
        rise = Signal(5)
        fall = Signal(5)
        taken = Signal(5)
        m.d.comb += [taken[:4].eq(self.rxd), taken[4].eq(self.rx_ctl)]
        m.d.receive += rise.eq(taken)
        m.d.falling += fall.eq(taken)
        m.d.receive += [receive.pins.rise.eq(rise), receive.pins.fall.eq(fall)]
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
        domain = ClockDomain("sync")
        domain.clk, domain.rst = self.clk, self.rst
        m.domains += domain
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
    ("interface", "speed"), [("rgmii", 1000), ("rgmii", 100), ("rgmii", 10), ("rmii", 100), ("rmii", 10)]
)
def test_bench(interface: str, speed: int, tmp_path: Path) -> None:
    source = tmp_path / f"{interface}_mac.v"
    source.write_text(convert(_MACS[interface](), f"{interface}_mac", own_clocks=True))
    parameters = {"interface": interface, "speed": speed}
    run_bench(source, source.stem, Path(__file__).with_name("mac_bench.py"), parameters=parameters)
