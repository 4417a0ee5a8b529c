# SPDX-License-Identifier: BSD-2-Clause
"""Counters of rare events in one memory."""

from typing import Any

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..parts.memory import LutRam


class EventCounters(wiring.Component):
    """Counts pulses in 64 bits each. A sweep visits every counter once per ``slots`` cycles.

    Two pulses of the same event within one sweep count as one, so events must be ``slots`` cycles apart: a
    port's frames are, where ``slots`` cycles last less than 672 ns at 1000 Mbit/s. The counters start at zero
    after configuration; a reset of the domain keeps them.

    Parameters
    ----------
    slots : :class:`int`
        Counters, a power of two.

    Members
    -------
    events : :py:`In(slots)`
    slot : :py:`In(range(slots))`
    value : :py:`Out(64)`
        The counter of ``slot``, ``slots + 1`` cycles after the latter has changed, and anew in each sweep.
    """

    def __init__(self, slots: int):
        if slots < 2 or slots & (slots - 1):
            raise ValueError(f"slots must be a power of two of at least 2, not {slots!r}")
        self.slots = slots
        super().__init__({"events": In(slots), "slot": In(range(slots)), "value": Out(64)})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.memory = memory = LutRam(64, self.slots)
        place = Signal(range(self.slots))
        pending = Signal(self.slots)
        m.d.comb += [
            memory.read_address.eq(place),
            memory.write_address.eq(place),
            memory.write_data.eq(memory.read_data + pending.bit_select(place, 1)),
            memory.write.eq(pending.bit_select(place, 1)),
        ]
        m.d.sync += [place.eq(place + 1), pending.eq((pending & ~(1 << place)) | self.events)]
        with m.If(place == self.slot):
            m.d.sync += self.value.eq(memory.read_data)
        return m
