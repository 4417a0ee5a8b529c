# SPDX-License-Identifier: BSD-2-Clause
"""Prints prepared messages with decimal numbers in them over a serial line."""

from collections.abc import Mapping, Sequence
from typing import Any

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

END = 0x00
VALUE = 0x80
"""``VALUE + i`` in a message: the i-th value in decimal."""
VALUE_BITS = 48
DIGITS = 15  # of 2**48 - 1


def assemble(messages: Mapping[str, str], values: Sequence[str]) -> tuple[bytes, dict[str, int]]:
    """Return the bytes of the message memory and each message's address.

    ``{name}`` in a text stands for one of ``values``. Raises ``ValueError`` for an unknown one, or for text
    that is not ASCII.
    """
    memory, addresses = bytearray(), {}
    for name, text in messages.items():
        addresses[name] = len(memory)
        while text:
            before, brace, text = text.partition("{")
            if not before.isascii():
                raise ValueError(f"message must be ASCII text, not {before!r}")
            memory += before.encode("ascii")
            if brace:
                value, _, text = text.partition("}")
                if value not in values:
                    raise ValueError(f"message {name!r} names an unknown value {value!r}")
                memory.append(VALUE + list(values).index(value))
        memory.append(END)
    return bytes(memory), addresses


class Printer(wiring.Component):
    """Sends a message of its memory, byte by byte; numbers in decimal, without leading zeros.

    A number takes ``VALUE_BITS`` cycles to be converted (shift and add 3) before its digits leave.

    Parameters
    ----------
    memory : :class:`bytes`
        From :func:`assemble`.
    count : :class:`int`
        Number of values.
    """

    def __init__(self, memory: bytes, count: int):
        self.memory = memory
        self.count = count
        super().__init__(
            {
                "start": In(1),  #: Print the message at ``address``; only while not ``busy``.
                "address": In(range(len(memory))),  #: Of the message's first character.
                "busy": Out(1),  #: A message is being printed.
                "values": In(VALUE_BITS).array(count),  #: Constant while ``busy``.
                "characters": Out(stream.Signature(8)),  #: The message.
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.text = text = Memory(shape=8, depth=len(self.memory), init=list(self.memory))
        read = text.read_port()
        place = Signal(range(len(self.memory)))
        m.d.comb += read.addr.eq(place)
        binary = Signal(VALUE_BITS)
        digits = Signal(4 * DIGITS)
        left = Signal(range(VALUE_BITS + 1))
        shown = Signal()  # a digit that is not 0, or the last one
        chosen = Signal(VALUE_BITS)
        m.d.sync += chosen.eq(Array(self.values)[read.data[:5]])
        top = digits[-4:]

        def next_character() -> None:
            m.d.sync += place.eq(place + 1)
            m.next = "FETCH"

        with m.FSM() as fsm:
            m.d.comb += self.busy.eq(~fsm.ongoing("IDLE"))
            with m.State("IDLE"), m.If(self.start):
                m.d.sync += place.eq(self.address)
                m.next = "FETCH"
            with m.State("FETCH"):  # the memory answers in the next cycle
                m.next = "LOOK"
            with m.State("LOOK"):
                with m.If(read.data[7]):
                    m.next = "LOAD"
                with m.Elif(read.data == END):
                    m.next = "IDLE"
                with m.Else():
                    m.d.comb += [self.characters.valid.eq(1), self.characters.payload.eq(read.data)]
                    with m.If(self.characters.ready):
                        next_character()
            with m.State("LOAD"):
                m.d.sync += [binary.eq(chosen), digits.eq(0), left.eq(VALUE_BITS), shown.eq(0)]
                m.next = "CONVERT"
            with m.State("CONVERT"):
                with m.If(left == 0):
                    m.d.sync += left.eq(DIGITS - 1)
                    m.next = "DIGIT"
                with m.Else():
                    m.d.sync += [
                        Cat(binary, digits).eq(Cat(Const(0, 1), binary, _adjusted(digits))),
                        left.eq(left - 1),
                    ]
            with m.State("DIGIT"):
                wanted = Signal()
                m.d.comb += [
                    wanted.eq(shown | (top != 0) | (left == 0)),
                    self.characters.valid.eq(wanted),
                    self.characters.payload.eq(ord("0") | top),
                ]
                with m.If(~wanted | self.characters.ready):
                    m.d.sync += [shown.eq(wanted), digits.eq(digits << 4), left.eq(left - 1)]
                    with m.If(left == 0):
                        next_character()
        return m


def _adjusted(digits: Value) -> Value:
    """Add 3 to every decimal digit of 5 and above.

    A shift to the left then doubles it with its carry.
    """
    nibbles = (digits.word_select(i, 4) for i in range(DIGITS))
    return Cat(Mux(nibble >= 5, nibble + 3, nibble)[:4] for nibble in nibbles)
