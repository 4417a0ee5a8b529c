# SPDX-License-Identifier: BSD-2-Clause
"""Counters of the bring-up design."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .printer import VALUE_BITS

HALF = VALUE_BITS // 2


class WideCounter(wiring.Component):
    """A 48-bit sum in two halves with a register between them, so that no carry runs through all of it."""

    def __init__(self, width: int):
        self.width = width
        super().__init__(
            {
                "add": In(width),  #: Added in every cycle.
                "clear": In(1),  #: Resets it to 0; values added meanwhile are lost.
                "value": Out(VALUE_BITS),  #: The sum of two cycles ago.
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        add = Signal(self.width)
        low = Signal(HALF)
        low_late = Signal(HALF)
        high = Signal(HALF)
        carry = Signal()
        m.d.sync += [add.eq(self.add), Cat(low, carry).eq(low + add), low_late.eq(low), high.eq(high + carry)]
        with m.If(self.clear):
            m.d.sync += [signal.eq(0) for signal in (add, low, low_late, high, carry)]
        m.d.comb += self.value.eq(Cat(low_late, high))
        return m


class RateMeter(wiring.Component):
    """The sum that was added between the last two ticks."""

    WIDTH = 36  # 2**36 a second: 250 MHz times 32 bytes is 2**33

    add: In(6)  #: Added in every cycle.
    tick: In(1)  #: One cycle: an interval ends and the next begins.
    value: Out(WIDTH)  #: Changes two cycles after ``tick``.

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        add = Signal(6)
        tick = Signal()
        total = Signal(self.WIDTH)
        m.d.sync += [add.eq(self.add), tick.eq(self.tick), total.eq(Mux(tick, 0, total) + add)]
        with m.If(tick):
            m.d.sync += self.value.eq(total)
        return m
