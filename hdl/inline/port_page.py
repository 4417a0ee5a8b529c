# SPDX-License-Identifier: BSD-2-Clause
"""The ports' page of registers on AXI4-Lite."""

from typing import Any

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In

from ..control.axi_lite import AXI4Lite, Response
from ..mac.port import PortEvents
from .event_counters import EventCounters
from .registers import COUNTER_BYTES, COUNTERS, EVENTS, PAGE_WIDTH, PORT_PAGE, PORTS, SLOTS

_SWEEP = SLOTS + 2


class Link(data.Struct):
    """State of a port's link."""

    up: 1
    speed: 2  # Speed
    managed: 1  # a PHY answers over MDIO


class PortPage(wiring.Component):
    """AXI4-Lite slave of :data:`~inceptionn.hdl.inline.registers.PORT_PAGE`; everything in it is read only.

    A read takes about 20 cycles: it waits for a sweep of the counters. The read of a counter's low word keeps
    its high word for the next read. Writes and unknown addresses are answered with SLVERR.

    Parameters
    ----------
    start : :class:`int`
        Of each counter, as for :class:`EventCounters`.
    """

    s_axil: In(AXI4Lite(PAGE_WIDTH))  #: To the master.
    links: In(data.ArrayLayout(Link, len(PORTS)))  #: Of the host's port and the network's.
    events: In(data.ArrayLayout(PortEvents, len(PORTS)))  #: Of both ports, in the same order.

    def __init__(self, start: int = 0):
        self.start = start
        super().__init__()

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        bus = self.s_axil
        address = Signal(PAGE_WIDTH)
        counter_at = COUNTER_BYTES.bit_length() - 1
        slot = address[counter_at : counter_at + (SLOTS - 1).bit_length()]
        port = address[counter_at + len(slot)]
        high = address[counter_at - 1]

        counters = []
        for number, name in enumerate(PORTS):
            m.submodules[f"{name}_counters"] = bank = EventCounters(SLOTS, self.start)
            m.d.comb += [
                bank.events.eq(Cat(self.events[number][event] for event in EVENTS)),
                bank.slot.eq(slot),
            ]
            counters.append(bank)
        links = Signal(32)
        register = PORT_PAGE["LINKS"]
        for number, name in enumerate(PORTS):
            for field, _ in Link.as_shape():
                place = register[f"{name.upper()}_{field.upper()}"]
                m.d.comb += links[place.lsb : place.lsb + place.width].eq(self.links[number][field])

        value = Array(bank.value for bank in counters)[port]
        kept_high = Signal(32)
        is_links = address[2:] == register.offset >> 2
        is_counter = (address[counter_at + len(slot) + 1 :] == COUNTERS >> counter_at + len(slot) + 1) & (
            slot < len(EVENTS)
        )
        # A read: the address, a sweep, the answer.
        waiting = Signal(range(_SWEEP + 1))
        m.d.comb += bus.arready.eq((waiting == 0) & ~bus.rvalid)
        with m.If(bus.arvalid & bus.arready):
            m.d.sync += [address.eq(bus.araddr), waiting.eq(_SWEEP)]
        with m.Elif(waiting != 0):
            m.d.sync += waiting.eq(waiting - 1)
            with m.If(waiting == 1):
                m.d.sync += [
                    bus.rvalid.eq(1),
                    bus.rresp.eq(Mux(is_links | is_counter, Response.OKAY.value, Response.SLVERR.value)),
                    bus.rdata.eq(Mux(is_links, links, Mux(is_counter, Mux(high, kept_high, value[:32]), 0))),
                ]
                with m.If(is_counter & ~high):
                    m.d.sync += kept_high.eq(value[32:])
        with m.Elif(bus.rready):
            m.d.sync += bus.rvalid.eq(0)

        taken = Signal()
        m.d.comb += [
            taken.eq(bus.awvalid & bus.wvalid & ~bus.bvalid),
            bus.awready.eq(taken),
            bus.wready.eq(taken),
            bus.bresp.eq(Const(Response.SLVERR.value, 2)),
        ]
        m.d.sync += bus.bvalid.eq(taken | (bus.bvalid & ~bus.bready))
        return m
