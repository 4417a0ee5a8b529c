# SPDX-License-Identifier: BSD-2-Clause
"""Asynchronous serial line, 8 data bits, no parity, one stop bit."""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.wiring import In, Out

LEAST_DIVISOR = 4


def checked_divisor(divisor: int) -> int:
    """Return ``divisor``; ``TypeError`` or ``ValueError`` if a bit cannot have that many cycles."""
    if not isinstance(divisor, int) or isinstance(divisor, bool):
        raise TypeError(f"cycles per bit must be an integer, not {divisor!r}")
    if divisor < LEAST_DIVISOR:
        raise ValueError(f"cycles per bit must be at least {LEAST_DIVISOR}, not {divisor!r}")
    return divisor


class UARTTransmitter(wiring.Component):
    """Sends bytes, least significant bit first; ten bits of ``divisor`` cycles each."""

    def __init__(self, divisor: int):
        self.divisor = checked_divisor(divisor)
        super().__init__(
            {
                "i": In(stream.Signature(8)),  #: Bytes to send.
                "tx": Out(1, init=1),  #: The serial line; high when idle.
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        shift = Signal(9)
        bits = Signal(range(11))
        timer = Signal(range(self.divisor))
        m.d.comb += self.i.ready.eq(bits == 0)
        with m.If(bits == 0), m.If(self.i.valid):
            # Data and stop bit; the start bit leaves at once.
            m.d.sync += [
                shift.eq(Cat(self.i.payload, Const(1, 1))),
                bits.eq(10),
                timer.eq(self.divisor - 1),
                self.tx.eq(0),
            ]
        with m.Elif(timer == 0):
            m.d.sync += [
                timer.eq(self.divisor - 1),
                bits.eq(bits - 1),
                self.tx.eq(shift[0]),
                shift.eq(Cat(shift[1:], Const(1, 1))),
            ]
        with m.Else():
            m.d.sync += timer.eq(timer - 1)
        return m


class UARTReceiver(wiring.Component):
    """Takes bytes, each bit sampled in its middle. A byte without its stop bit is dropped."""

    def __init__(self, divisor: int):
        self.divisor = checked_divisor(divisor)
        super().__init__(
            {
                "rx": In(1),  #: Asynchronous; synchronized here.
                "o": Out(stream.Signature(8, always_ready=True)),  #: Bytes received.
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        line = Signal(init=1)
        m.submodules.synchronizer = FFSynchronizer(self.rx, line, init=1)
        timer = Signal(range(2 * self.divisor))
        bits = Signal(range(11))
        m.d.sync += self.o.valid.eq(0)
        with m.If(bits == 0), m.If(~line):
            m.d.sync += [bits.eq(10), timer.eq(self.divisor // 2 - 1)]
        with m.Elif(timer != 0):
            m.d.sync += timer.eq(timer - 1)
        with m.Else():
            m.d.sync += [timer.eq(self.divisor - 1), bits.eq(bits - 1)]
            with m.If((bits == 10) & line):  # a glitch, no start bit
                m.d.sync += bits.eq(0)
            with m.Elif(bits == 1):
                m.d.sync += self.o.valid.eq(line)
            with m.Elif(bits != 10):
                m.d.sync += self.o.payload.eq(Cat(self.o.payload[1:], line))
        return m
