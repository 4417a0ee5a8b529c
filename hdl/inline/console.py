# SPDX-License-Identifier: BSD-2-Clause
"""Registers over a serial line, in lines of text."""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import enum, wiring
from amaranth.lib.wiring import In, Out

from ..attach.uart import UARTReceiver, UARTTransmitter
from ..control.axi_lite import AXI4Lite, Response

_LONGEST = 10  # characters of an answer: eight digits and the line's end


def _text(words: str) -> Value:
    """Pad an answer."""
    return Const(int.from_bytes(f"{words}\r\n".encode(), "little"), 8 * _LONGEST)


class _State(enum.Enum):
    LINE = 0
    ACCESS = 1
    ANSWER = 2


def _hexadecimal(word: Value) -> Value:
    """Format a 32-bit word as a line of 8 hexadecimal digits."""
    nibbles = [word.word_select(7 - place, 4) for place in range(8)]
    letters = [Mux(n > 9, n + (ord("a") - 10), n + ord("0"))[:8] for n in nibbles]
    return Cat(*letters, Const(0x0A0D, 16))


class RegisterConsole(wiring.Component):
    """Turns lines of text into AXI4-Lite accesses. Numbers are hexadecimal, of 32 bits, in either case.

    =====================  ============================================  ==============
    line                   effect                                        answer
    =====================  ============================================  ==============
    ``r ADDRESS``          reads the register at a byte address          eight digits
    ``w ADDRESS VALUE``    writes it                                     ``ok``
    any other              none                                          ``error``
    =====================  ============================================  ==============

    A line ends with CR or LF, an answer with both. An access that the slave refuses is answered with
    ``error`` too. Wait for the answer before the next line, which is lost otherwise. Empty lines have no
    answer. Nothing is echoed.

    Parameters
    ----------
    divisor : :class:`int`
        Cycles per bit of the serial line.
    addr_width : :class:`int`
        Address bits of the bus.
    """

    def __init__(self, divisor: int, addr_width: int):
        self.divisor = divisor
        self.addr_width = addr_width
        super().__init__(
            {
                "rx": In(1),  #: The serial line, synchronised here.
                "tx": Out(1, init=1),  #: The serial line.
                "m_axil": Out(AXI4Lite(addr_width)),  #: To the registers.
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.receiver = receiver = UARTReceiver(self.divisor)
        m.submodules.transmitter = transmitter = UARTTransmitter(self.divisor)
        bus = self.m_axil
        state = Signal(_State)
        writes = Signal()
        empty = Signal(init=1)
        bad = Signal()
        digits = Signal()  # the current number has some
        first = Signal()  # the address of a write is there
        value = Signal(32)
        address = Signal(32)
        answer = Signal(8 * _LONGEST)
        left = Signal(range(_LONGEST + 1))

        def say(text: Value | str) -> list[Any]:
            there = _LONGEST if not isinstance(text, str) else len(text) + 2
            words = _text(text) if isinstance(text, str) else text
            return [answer.eq(words), left.eq(there), state.eq(_State.ANSWER)]

        char = receiver.o.payload
        lower = char | 0x20
        is_digit = (char >= ord("0")) & (char <= ord("9"))
        is_letter = (lower >= ord("a")) & (lower <= ord("f"))
        ends = (char == ord("\r")) | (char == ord("\n"))
        where = Mux(writes, address, value)
        complete = digits & (first == writes) & ~bad & ~where[self.addr_width :].any() & ~where[:2].any()
        m.d.comb += [receiver.rx.eq(self.rx), self.tx.eq(transmitter.tx)]
        with m.If(receiver.o.valid & ends):
            m.d.sync += [empty.eq(1), bad.eq(0), digits.eq(0), first.eq(0)]
            with m.If(~empty & (state == _State.LINE)):
                with m.If(complete):
                    m.d.sync += [
                        address.eq(where),
                        state.eq(_State.ACCESS),
                        bus.awvalid.eq(writes),
                        bus.wvalid.eq(writes),
                        bus.arvalid.eq(~writes),
                    ]
                with m.Else():
                    m.d.sync += say("error")
        with m.Elif(receiver.o.valid):
            m.d.sync += empty.eq(empty & (char == ord(" ")))
            with m.If(empty & ((lower == ord("r")) | (lower == ord("w")))):
                m.d.sync += [writes.eq(lower == ord("w")), bad.eq(state != _State.LINE)]
            with m.Elif(empty & (char != ord(" "))):
                m.d.sync += bad.eq(1)
            with m.Elif((is_digit | is_letter) & (state == _State.LINE)):
                nibble = Mux(char[6], char[:4] + 9, char[:4])[:4]
                m.d.sync += [
                    value.eq(Cat(nibble, value[:28] & digits.replicate(28))),
                    digits.eq(1),
                    bad.eq(bad | (digits & value[28:].any())),
                ]
            with m.Elif(char != ord(" ")):
                m.d.sync += bad.eq(1)
            with m.Elif(digits & (state == _State.LINE)):
                m.d.sync += [address.eq(value), digits.eq(0), first.eq(1), bad.eq(bad | first)]

        self._drive_bus(m, address, value, state == _State.ACCESS)
        with m.If((state == _State.ACCESS) & (bus.bvalid | bus.rvalid)):
            with m.If(Mux(writes, bus.bresp, bus.rresp) != Response.OKAY.value):
                m.d.sync += say("error")
            with m.Elif(writes):
                m.d.sync += say("ok")
            with m.Else():
                m.d.sync += say(_hexadecimal(bus.rdata))

        m.d.comb += [
            transmitter.i.valid.eq((state == _State.ANSWER) & (left != 0)),
            transmitter.i.payload.eq(answer),
        ]
        with m.If(state == _State.ANSWER):
            with m.If(left == 0):
                m.d.sync += state.eq(_State.LINE)
            with m.Elif(transmitter.i.ready):
                m.d.sync += [answer.eq(answer >> 8), left.eq(left - 1)]
        return m

    def _drive_bus(self, m: Module, address: Signal, value: Signal, in_access: Value) -> None:
        """Drive one access: ``awvalid``, ``wvalid`` and ``arvalid`` fall when they are taken."""
        bus = self.m_axil
        m.d.comb += [
            bus.awaddr.eq(address),
            bus.araddr.eq(address),
            bus.wdata.eq(value),
            bus.wstrb.eq(~0),
            bus.bready.eq(in_access),
            bus.rready.eq(in_access),
        ]
        for channel in ("aw", "w", "ar"):
            valid = getattr(bus, f"{channel}valid")
            with m.If(valid & getattr(bus, f"{channel}ready")):
                m.d.sync += valid.eq(0)
