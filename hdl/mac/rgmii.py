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
    """The PHY's in-band status, sent between frames."""

    up: 1
    speed: 2  # Speed
    full_duplex: 1


class RgmiiReceive(wiring.Component):
    """Octets from the PHY, and its in-band status; everything is in the PHY's receive clock.

    At 1000 Mbit/s an octet per cycle, two cycles late; at 10 and 100 Mbit/s a nibble per cycle, at the rising
    edge. The status counts once it has been the same for 16 idle cycles. The PHY changes the clock with the
    speed, between frames.
    """

    pins: In(Edges)  #: From the pads' flip-flops.
    status: Out(LinkStatus)  #: Down until the PHY has said otherwise.
    gigabit: In(1)  #: The rate is 1000 Mbit/s; from ``status``, or from a register of the PHY.
    octets: Out(stream.Signature(Octet, always_ready=True))  #: Octets received.

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
        # Active after a reset, which may fall into a frame: the rest of that is passed over.
        nibble = Signal(symbol(4), init={"active": 1})
        whole = Signal(Octet, init={"active": 1})
        m.d.sync += [
            nibble.eq(Cat(rise.data, rise.control, error)),
            whole.eq(Cat(rise.data, fall.data, rise.control, error)),
        ]
        m.d.comb += [
            aligner.symbols.valid.eq(~self.gigabit),
            aligner.symbols.payload.eq(nibble),
        ]
        m.d.sync += [
            self.octets.valid.eq(self.gigabit | aligner.octets.valid),
            self.octets.payload.eq(Mux(self.gigabit, whole, aligner.octets.payload)),
        ]
        return m


class RgmiiTransmit(wiring.Component):
    """Octets to the PHY, in a clock of 125 MHz; slower interface clocks are made of its half cycles.

    Control and data change with the rising edge of the interface's clock. A delay of the clock against them
    belongs to the pads, the board or the PHY. A change of ``speed`` waits for an idle octet, which then lasts
    50 cycles.

    ``ready`` comes from a register: the octet is fetched one octet time ahead, and the cycles of a nibble are
    counted one cycle ahead. Latency from the ``ready`` cycle to ``pins`` is 3 cycles::

        octets ─► now ─► nibble, halves, control ─► pins, clock
          t      t + 1            t + 2                t + 3
    """

    octets: In(stream.Signature(Octet))  #: ``ready`` comes every cycle, every 10 cycles or every 100 cycles.
    speed: In(2)  #: A :class:`Speed`.
    pins: Out(Edges)  #: To the pads' flip-flops.
    clock: Out(2)  #: The interface's clock in the first (bit 0) and the second half of the cycle.

    # Cycles of a nibble. The interface's clock is high in the first half of them.
    CYCLES = {Speed.MBIT_10: 50, Speed.MBIT_100: 5}

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        slow, fast = self.CYCLES[Speed.MBIT_10], self.CYCLES[Speed.MBIT_100]
        octet = self.octets.payload
        now = Signal(Octet)  # it is being sent
        gigabit = Signal(init=1)
        slowest = Signal()  # 10 Mbit/s
        upper = Signal()  # the second nibble
        left = Signal(range(slow))  # cycles of the nibble after this one
        ends = Signal(init=1)  # none is left
        tick = Signal(init=1)  # nor of the octet
        wanted = Signal(2, init=Speed.MBIT_1000)
        change = Signal()
        m.d.sync += wanted.eq(Mux(self.speed[1], Speed.MBIT_1000, self.speed))
        m.d.comb += [
            self.octets.ready.eq(tick),
            change.eq((gigabit != wanted[1]) | (slowest != (wanted == Speed.MBIT_10))),
        ]
        with m.If(tick):
            m.d.sync += now.eq(octet)
        with m.If(tick & ~octet.active & change):
            m.d.sync += [
                gigabit.eq(wanted[1]),
                slowest.eq(wanted == Speed.MBIT_10),
                upper.eq(1),
                left.eq(slow - 1),
                ends.eq(0),
                tick.eq(0),
            ]
        with m.Elif(ends):
            m.d.sync += [
                upper.eq(~upper & ~gigabit),
                left.eq(Mux(slowest, slow - 1, fast - 1)),
                ends.eq(gigabit),
                tick.eq(gigabit),
            ]
        with m.Else():
            m.d.sync += [left.eq(left - 1), ends.eq(left == 1), tick.eq((left == 1) & upper)]

        nibble = Signal(4)
        other = Signal(4)  # at the falling edge
        control = Signal(2)
        halves = Signal(2)
        m.d.sync += [
            nibble.eq(Mux(upper, now.data[4:], now.data[:4])),
            other.eq(Mux(upper | gigabit, now.data[4:], now.data[:4])),
            control.eq(Cat(now.active, now.active ^ now.error)),
            halves[0].eq(gigabit | (left >= Mux(slowest, slow // 2, fast // 2))),
            halves[1].eq(~gigabit & (left >= Mux(slowest, slow // 2, (fast + 1) // 2))),
            self.clock.eq(halves),
            self.pins.rise.data.eq(nibble),
            self.pins.fall.data.eq(other),
            self.pins.rise.control.eq(Mux(halves[0], control[0], control[1])),
            self.pins.fall.control.eq(Mux(halves[1], control[0], control[1])),
        ]
        return m
