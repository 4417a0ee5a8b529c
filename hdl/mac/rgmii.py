# SPDX-License-Identifier: BSD-2-Clause
"""RGMII 2.0 on the inner side of the pads' double-data-rate cells."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from .octets import Octet, Speed
from .symbols import SymbolAligner, symbol

_STEADY = 15


class Edges(data.Struct):
    """Pins at the rising edge of the interface's clock and at the falling edge that follows it."""

    rise: data.StructLayout({"data": 4, "control": 1})
    fall: data.StructLayout({"data": 4, "control": 1})


class LinkStatus(data.Struct):
    """What the PHY sends between frames (in-band status)."""

    up: 1
    speed: 2  # Speed
    full_duplex: 1


class RgmiiReceive(wiring.Component):
    """Octets from the PHY, and its in-band status; everything is in the PHY's receive clock.

    At 1000 Mbit/s an octet per cycle, one cycle late; at 10 and 100 Mbit/s a nibble per cycle, at the rising
    edge. The status counts once it has been the same for 16 idle cycles. The PHY changes the clock with the
    speed, between frames.

    Members
    -------
    pins : :py:`In(Edges)`
    status : :py:`Out(LinkStatus)`
        Down until the PHY has said otherwise.
    gigabit : :py:`In(1)`
        The rate is 1000 Mbit/s; from ``status``, or from a register of the PHY.
    octets : :py:`Out(stream.Signature(Octet, always_ready=True))`
    """

    pins: In(Edges)
    status: Out(LinkStatus)
    gigabit: In(1)
    octets: Out(stream.Signature(Octet, always_ready=True))

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        rise, fall = self.pins.rise, self.pins.fall
        error = rise.control & ~fall.control
        idle = ~rise.control & ~fall.control

        newest = Signal(4)
        steady = Signal(range(_STEADY + 1))
        with m.If(idle):
            m.d.sync += newest.eq(rise.data)
            with m.If(newest != rise.data):
                m.d.sync += steady.eq(0)
            with m.Elif(steady != _STEADY):
                m.d.sync += steady.eq(steady + 1)
            with m.Else():
                m.d.sync += self.status.eq(newest)

        m.submodules.aligner = aligner = SymbolAligner(4)
        nibble = Signal(symbol(4))
        whole = Signal(Octet)
        m.d.sync += [
            nibble.eq(Cat(rise.data, rise.control, error)),
            whole.eq(Cat(rise.data, fall.data, rise.control, error)),
        ]
        m.d.comb += [
            aligner.symbols.valid.eq(~self.gigabit),
            aligner.symbols.payload.eq(nibble),
            self.octets.valid.eq(self.gigabit | aligner.octets.valid),
            self.octets.payload.eq(Mux(self.gigabit, whole, aligner.octets.payload)),
        ]
        return m


class RgmiiTransmit(wiring.Component):
    """Octets to the PHY, in a clock of 125 MHz; slower interface clocks are made of its half cycles.

    Control and data change with the rising edge of the interface's clock. A delay of the clock against them
    belongs to the pads, the board or the PHY. A change of ``speed`` takes effect at the next idle octet.

    Members
    -------
    octets : :py:`In(stream.Signature(Octet))`
        ``ready`` comes every cycle, every 10 cycles or every 100 cycles.
    speed : :py:`In(Speed)`
    pins : :py:`Out(Edges)`
    clock : :py:`Out(2)`
        The interface's clock in the first (bit 0) and the second half of the cycle.
    """

    octets: In(stream.Signature(Octet))
    speed: In(2)
    pins: Out(Edges)
    clock: Out(2)

    # Cycles of a nibble, in half cycles of 4 ns each: as many high as low.
    HALVES = {Speed.MBIT_10: 100, Speed.MBIT_100: 10}

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        octet = self.octets.payload
        speed = Signal(2, init=Speed.MBIT_1000)
        upper = Signal()  # the octet's second nibble
        cycle = Signal(range(max(self.HALVES.values()) // 2))
        last = Signal(len(cycle))
        middle = Signal(len(cycle))  # the cycle in which the clock falls, or before which it fell
        odd = Signal()  # it falls in the middle of that cycle
        with m.Switch(speed):
            for value, halves in self.HALVES.items():
                with m.Case(value):
                    m.d.comb += [last.eq(halves // 2 - 1), middle.eq(halves // 4), odd.eq(halves // 2 % 2)]
        gigabit = speed == Speed.MBIT_1000
        ends = cycle == last
        m.d.comb += self.octets.ready.eq(gigabit | (ends & upper))
        m.d.sync += cycle.eq(Mux(ends, 0, cycle + 1))
        with m.If(ends):
            m.d.sync += upper.eq(~upper & ~gigabit)
        with m.If(self.octets.ready & ~octet.active):
            m.d.sync += speed.eq(Mux(self.speed[1], Speed.MBIT_1000, self.speed))

        control = Signal(2)
        m.d.comb += control.eq(Cat(octet.active, octet.active ^ octet.error))
        nibble = Mux(upper, octet.data[4:], octet.data[:4])
        high_first = gigabit | (cycle < middle) | ((cycle == middle) & odd)
        high_second = ~gigabit & (cycle < middle)
        m.d.sync += [
            self.clock.eq(Cat(high_first, high_second)),
            self.pins.rise.data.eq(nibble),
            self.pins.fall.data.eq(Mux(gigabit, octet.data[4:], nibble)),
            self.pins.rise.control.eq(Mux(high_first, control[0], control[1])),
            self.pins.fall.control.eq(Mux(high_second, control[0], control[1])),
        ]
        return m
