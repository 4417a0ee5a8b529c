# SPDX-License-Identifier: BSD-2-Clause
"""The counters of rare events: one of them, any, against a count of its pulses, all 64 bits of it."""

from amaranth.hdl import Cat, Mux, Signal
from harness import Fault, Harness, Proof

from inceptionn.hdl.inline.event_counters import EventCounters

SLOTS = 16


def event_counters(h: Harness) -> None:
    dut = EventCounters(SLOTS)
    inside = h.add(dut)
    m = h.m
    events, slot = h.anything(SLOTS, "events"), h.anything(range(SLOTS), "slot")
    m.d.comb += [dut.events.eq(events), dut.slot.eq(slot)]
    h.assume("no reset", ~h.domain.rst)
    mine = h.any_constant(range(SLOTS), "mine")
    event = events.bit_select(mine, 1)
    # The sweep, the pulses since its last visit, and all pulses.
    place, waiting, total = Signal(range(SLOTS)), Signal(2), Signal(64)
    visit = place == mine
    m.d.sync += [
        place.eq(place + 1), waiting.eq(Mux(visit, 0, waiting) + event), total.eq(total + event)
    ]  # fmt: skip
    h.assume("at most three pulses in a sweep", visit | ~event | (waiting != 3))
    # Cycles without a pulse, and with this counter's slot.
    quiet, asked = Signal(6), Signal(5)
    m.d.sync += [
        quiet.eq(Mux(event, 0, quiet + ~quiet.all())),
        asked.eq(Mux(slot == mine, asked + ~asked.all(), 0)),
    ]
    h.claim(
        "a counter that was asked for in a sweep, and had no pulse in two, shows the number of its pulses",
        (asked < SLOTS) | (quiet < 2 * SLOTS) | (dut.value == total),
    )
    since = Signal(range(SLOTS))
    m.d.comb += since.eq(place - mine - 1)
    pending = Cat(inside[f"pending.{number}"] for number in range(SLOTS)).word_select(mine, 2)
    h.invariant("the sweep is at its place", inside["place"] == place)
    h.invariant("what waits is what came since the visit", pending == waiting)
    h.invariant("what waits came since the visit", (waiting == 0) | (quiet <= since))
    h.invariant("nothing is lost", (inside.memory("memory", mine) + waiting)[:64] == total)
    h.invariant(
        "what was read at the visit is all, if nothing has come since the one before",
        (asked <= since) | (quiet <= since + SLOTS) | (dut.value == total),
    )
    h.cover("two pulses are shown", (asked >= SLOTS) & (quiet >= 2 * SLOTS) & (dut.value == 2))


PROOFS = (
    Proof("event_counters", event_counters, 2, (
        Fault("inline.event_counters", "pending[slot]) + event", "pending[slot] + event)"),
        Fault("inline.event_counters", "with m.If(place == self.slot)", "with m.If(place + 1 == self.slot)"),
    ), cover_depth=44, refute_depth=56),
)  # fmt: skip
