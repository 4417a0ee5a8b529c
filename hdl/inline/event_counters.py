# SPDX-License-Identifier: BSD-2-Clause
"""Counters of rare events in one memory."""

from typing import Any

from amaranth.hdl import Array, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..parts.memory import LutRam


class EventCounters(wiring.Component):
    """Counts pulses in 64 bits each. A sweep visits every counter once per ``slots`` cycles.

    At most three pulses of an event may come within one sweep. The shortest frames are farther apart, also
    those that an engine drops back to back: 60 bytes take 15 cycles at 4 bytes a cycle. A reset of the domain
    keeps the counters.

    Parameters
    ----------
    slots : :class:`int`
        Counters, a power of two.
    start : :class:`int`
        Of each counter after configuration; a bench has no time to count so far.
    """

    def __init__(self, slots: int, start: int = 0):
        if slots < 2 or slots & (slots - 1):
            raise ValueError(f"slots must be a power of two of at least 2, not {slots!r}")
        self.slots = slots
        self.start = start
        super().__init__(
            {
                "events": In(slots),  #: One bit per counter: it counts in this cycle.
                "slot": In(range(slots)),  #: Number of the counter to read.
                #: The counter of ``slot``, ``slots + 1`` cycles after the latter has changed, and anew in
                #: each sweep.
                "value": Out(64),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.memory = memory = LutRam(64, self.slots, self.start)
        place = Signal(range(self.slots))
        pending = Array(Signal(2, name=f"pending{slot}") for slot in range(self.slots))
        self.probes = {"memory": memory, "place": place, "pending": list(pending)}
        m.d.comb += [
            memory.read_address.eq(place),
            memory.write_address.eq(place),
            memory.write_data.eq(memory.read_data + pending[place]),
            memory.write.eq(1),
        ]
        m.d.sync += place.eq(place + 1)
        for slot, event in enumerate(self.events):
            m.d.sync += pending[slot].eq(Mux(place == slot, 0, pending[slot]) + event)
        with m.If(place == self.slot):
            m.d.sync += self.value.eq(memory.read_data)
        return m
