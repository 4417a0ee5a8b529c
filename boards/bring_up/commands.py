# SPDX-License-Identifier: BSD-2-Clause
"""The bring-up design's command line: a letter, a number, Enter."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

COMMANDS = ("go", "stop", "pattern", "bound", "inject", "clear", "report", "help")
"""Only the first letter counts, in either case."""


class CommandParser(wiring.Component):
    """Reads lines: words of letters, of which the first one's first letter counts, and a decimal number."""

    characters: In(stream.Signature(8, always_ready=True))  #: What the host sends.
    done: Out(1)  #: One cycle for every line that is not empty, at its carriage return or line feed.
    #: Lower case; 0 if the line began with none or held anything but letters, digits and blanks.
    letter: Out(8)
    number: Out(8)  #: At most 255, which larger ones become.
    has_number: Out(1)  #: The line has a number.

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        letter = Signal(8)
        number = Signal(8)
        has_number = Signal()
        bad = Signal()
        empty = Signal(init=1)
        character = self.characters.payload
        lower = character | 0x20
        digit = character[:4]
        larger = (number << 3) + (number << 1) + digit
        m.d.sync += self.done.eq(0)
        with m.If(self.characters.valid):
            with m.If((character == ord("\r")) | (character == ord("\n"))):
                m.d.sync += [
                    self.done.eq(~empty),
                    self.letter.eq(Mux(bad, 0, letter)),
                    self.number.eq(number),
                    self.has_number.eq(has_number),
                    letter.eq(0), number.eq(0), has_number.eq(0), bad.eq(0), empty.eq(1),
                ]  # fmt: skip
            with m.Else():
                m.d.sync += empty.eq(empty & (character == ord(" ")))
                with m.If((lower >= ord("a")) & (lower <= ord("z"))), m.If(letter == 0):
                    m.d.sync += letter.eq(lower)
                with m.Elif((character >= ord("0")) & (character <= ord("9"))):
                    m.d.sync += [number.eq(Mux(larger > 255, 255, larger)), has_number.eq(1)]
                with m.Elif(character != ord(" ")):
                    m.d.sync += bad.eq(1)
        return m
