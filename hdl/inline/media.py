# SPDX-License-Identifier: BSD-2-Clause
"""The two media interfaces of a port: octets on one side, what the pads' flip-flops hold on the other."""

from typing import Any

from amaranth.hdl import DomainRenamer, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.wiring import In, Out

from ..mac.octets import Octet, Speed
from ..mac.rgmii import Edges, LinkStatus, RgmiiReceive, RgmiiTransmit
from ..mac.rmii import RmiiReceive, RmiiTransmit
from .port_page import Link

MAC_DOMAIN = "mac"
"""125 MHz: RGMII sends in it."""


_SAMPLES = 4
"""Equal samples after which a value counts: its bits may arrive 20 ns apart, a cycle of the slower clock."""


def stable(m: Module, name: str, value: Signal, domain: str) -> Signal:
    """Bring a register's value into another clock, 6 to 7 cycles late, never mixing old and new bits.

    Resets leave it unchanged.
    """
    sample = Signal.like(value, name=f"{name}_sample")
    before = Signal.like(value, name=f"{name}_before", reset_less=True)
    stable = Signal.like(value, name=f"{name}_stable", reset_less=True)
    same = Signal(range(_SAMPLES), name=f"{name}_same", reset_less=True)
    m.submodules[name] = FFSynchronizer(value, sample, o_domain=domain)
    with m.If(sample != before):
        m.d[domain] += [before.eq(sample), same.eq(0)]
    with m.Elif(same != _SAMPLES - 1):
        m.d[domain] += same.eq(same + 1)
    with m.Else():
        m.d[domain] += stable.eq(before)
    return stable


class RgmiiMedium(wiring.Component):
    """RGMII at 10, 100 or 1000 Mbit/s, without the pads.

    The link is what the PHY's in-band status says while that is up: it knows what the link has become. Else
    ``managed`` counts. A half-duplex link is not up. The speed stays while the link is down, at first
    1000 Mbit/s.

    Parameters
    ----------
    name : :class:`str`
        Of the port; its receive clock is the domain ``<name>_rx``. It sends in the domain ``mac``.
    """

    FASTEST = Speed.MBIT_1000
    PINS = wiring.Signature({"rx": In(Edges), "tx": Out(Edges), "tx_clock": Out(2)})

    #: ``rx`` and ``tx`` (:class:`~inceptionn.hdl.mac.rgmii.Edges`) in the receive and the transmit clock;
    #: ``tx_clock``: the interface's clock in both halves of a cycle.
    pins: Out(PINS)
    managed: In(Link)  #: What the PHY's registers say, in ``sync``.
    link: Out(Link)  #: In ``sync``.
    #: Octets from the medium, in the receive clock.
    received: Out(stream.Signature(Octet, always_ready=True))
    sent: In(stream.Signature(Octet))  #: Octets to the medium, in the transmit clock.

    def __init__(self, name: str):
        self.receive_domain = f"{name}_rx"
        self.transmit_domain = MAC_DOMAIN
        super().__init__()

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.receive = receive = DomainRenamer(self.receive_domain)(RgmiiReceive())
        m.submodules.transmit = transmit = DomainRenamer(self.transmit_domain)(RgmiiTransmit())
        wiring.connect(m, receive.octets, wiring.flipped(self.received))
        wiring.connect(m, wiring.flipped(self.sent), transmit.octets)
        told = Signal(LinkStatus)
        speed = Signal(2, init=Speed.MBIT_1000)
        m.d.comb += [
            receive.pins.eq(self.pins.rx),
            self.pins.tx.eq(transmit.pins),
            self.pins.tx_clock.eq(transmit.clock),
            told.eq(stable(m, "told", receive.status.as_value(), "sync")),
        ]
        m.d.sync += [
            self.link.up.eq(Mux(told.up, told.full_duplex, self.managed.up)),
            self.link.managed.eq(self.managed.managed),
        ]
        with m.If(told.up | self.managed.up):
            m.d.sync += speed.eq(Mux(told.up, told.speed, self.managed.speed))
        m.d.comb += [
            self.link.speed.eq(speed),
            receive.gigabit.eq(stable(m, "receive_speed", speed, self.receive_domain)[1]),
            transmit.speed.eq(stable(m, "transmit_speed", speed, self.transmit_domain)),
        ]
        return m


class RmiiMedium(wiring.Component):
    """RMII at 10 or 100 Mbit/s, without the pads. It sends and receives in one clock.

    The speed is that of ``managed`` while its link is up, else 100 Mbit/s.

    Parameters
    ----------
    name : :class:`str`
        Of the port; its reference clock of 50 MHz is the domain ``<name>_rx``.
    """

    FASTEST = Speed.MBIT_100
    PINS = wiring.Signature({"rxd": In(2), "crs_dv": In(1), "rx_er": In(1), "txd": Out(2), "tx_en": Out(1)})

    pins: Out(PINS)  #: ``rxd``, ``crs_dv``, ``rx_er`` sampled once, ``txd`` and ``tx_en`` from registers.
    managed: In(Link)  #: As of :class:`RgmiiMedium`.
    link: Out(Link)  #: As of :class:`RgmiiMedium`.
    received: Out(stream.Signature(Octet, always_ready=True))  #: As of :class:`RgmiiMedium`.
    sent: In(stream.Signature(Octet))  #: As of :class:`RgmiiMedium`.

    def __init__(self, name: str):
        self.receive_domain = self.transmit_domain = f"{name}_rx"
        super().__init__()

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        renamed = DomainRenamer(self.receive_domain)
        m.submodules.receive = receive = renamed(RmiiReceive())
        m.submodules.transmit = transmit = renamed(RmiiTransmit())
        wiring.connect(m, receive.octets, wiring.flipped(self.received))
        wiring.connect(m, wiring.flipped(self.sent), transmit.octets)
        speed = Signal(2, init=Speed.MBIT_100)
        m.d.comb += self.link.speed.eq(speed)
        m.d.sync += [
            speed.eq(Mux(self.managed.up, self.managed.speed, Speed.MBIT_100)),
            self.link.up.eq(self.managed.up),
            self.link.managed.eq(self.managed.managed),
        ]
        slow = stable(m, "slow_speed", speed, self.receive_domain) == Speed.MBIT_10
        pins = self.pins
        m.d.comb += [receive.slow.eq(slow), transmit.slow.eq(slow)]
        m.d.comb += [getattr(receive, name).eq(getattr(pins, name)) for name in ("rxd", "crs_dv", "rx_er")]
        m.d.comb += [getattr(pins, name).eq(getattr(transmit, name)) for name in ("txd", "tx_en")]
        return m


MEDIA = {"rgmii": RgmiiMedium, "rmii": RmiiMedium}
"""By the interface's name."""
