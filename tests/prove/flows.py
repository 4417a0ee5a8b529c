# SPDX-License-Identifier: BSD-2-Clause
"""The flow-phase table against section 7 of docs/wire-format.md: the two flows of any set that came last."""

from amaranth.hdl import Cat, Mux, Signal
from harness import Fault, Harness, Proof

from inceptionn.hdl.frame.flow_table import FlowKey, FlowTable, _Entry

SETS = 2
"""Sets of the table that is proved; all are alike."""


def flow_table(h: Harness) -> None:
    """Look up any flows, one after the other, with any changes; follow one set, any.

    Of a set the page says: what is stored keeps its way, or takes a free one, or displaces the flow that was
    not stored last. So the set holds a list of at most two flows, the one that was stored last in front, and
    a third one drops the last.
    """
    dut = FlowTable(SETS)
    inside, m = h.add(dut), h.m
    index, key = h.anything(range(SETS), "index"), h.anything(FlowKey.as_shape().size, "key")
    store, add, free = (h.anything(1, name) for name in ("store", "add", "free"))
    phase, new_phase = h.anything(2, "phase"), h.anything(2, "new_phase")
    here = h.any_constant(range(SETS), "here")
    m.d.comb += [
        dut.index.eq(index), dut.key.as_value().eq(key), dut.store.eq(store), dut.add.eq(add),
        dut.free.eq(free), dut.phase.eq(phase), dut.new_phase.eq(new_phase),
    ]  # fmt: skip
    # Cycles for which index and key have held; a change ends a look-up, and the next waits for its write.
    age, changes = Signal(range(dut.LATENCY + 1)), store | add | free
    wanted = Cat(index, key, phase)
    held_wanted = h.past(wanted)
    answered = age == dut.LATENCY
    begins = h.anything(1, "begins")
    m.d.sync += age.eq(Mux(~dut.ready | changes | begins | dut.busy, 0, Mux(answered, age, age + 1)))
    h.assume("index, key and phase hold during a look-up", (age == 0) | (wanted == held_wanted))
    h.assume("a change comes when the answer is there, one for a look-up", ~changes | answered)
    h.assume("there is one kind of change at a time", store + add + free <= 1)
    # Look-ups of four flows of one set, without a pause, each with a change.
    h.narrow((begins == answered) & (changes == answered) & (key[1:-1] == 0) & (index == 0) & (here == 0))

    keys = [Signal(len(key), name=f"key_{place}") for place in range(2)]
    phases = [Signal(2, name=f"phase_{place}") for place in range(2)]
    held = Signal(2)
    is_first, is_second = (held[place] & (keys[place] == key) for place in range(2))
    known = is_first | is_second
    with m.If((store | (add & ~known)) & (index == here)):
        m.d.sync += [keys[0].eq(key), phases[0].eq(new_phase), held[0].eq(1)]
        with m.If(~is_first):
            m.d.sync += [keys[1].eq(keys[0]), phases[1].eq(phases[0]), held[1].eq(held[0])]
    with m.Elif(free & known & (index == here)):
        m.d.sync += held.eq(Cat(held[1], 0))
        with m.If(is_first):
            m.d.sync += [keys[0].eq(keys[1]), phases[0].eq(phases[1])]

    asked = answered & (index == here)
    h.claim("a flow is found if it is one of its set's two that were stored last, and was not freed since",
            ~asked | (dut.known == known))  # fmt: skip
    h.claim("its phase is compared with the one that was stored last", ~asked | (
        dut.differs == (known & (phase != Mux(is_first, *phases)))))  # fmt: skip
    # What the memories hold, or are about to.
    arrives = [inside["writes"][way] & (inside["place"] == here) for way in range(2)]
    ways = [
        _Entry(Mux(arrives[way], inside[f"entries.{way}"], inside.memory(f"ways.{way}", here)))
        for way in range(2)
    ]
    both = ways[0].known & ways[1].known
    swapped = Mux(both, ways[0].newer != ways[1].newer, ways[1].known)
    same = [
        (entry.key.as_value() == keys[place]) & (entry.phase == phases[place])
        for entry, place in zip((*ways, *ways[::-1]), (0, 1, 0, 1), strict=True)
    ]
    swept = dut.ready | (inside["sweep"] > here)
    h.invariant(
        "the set's ways are the list, in the order that their bits `newer` tell",
        ~swept
        | (
            (held == Cat(ways[0].known | ways[1].known, both))
            & (~held[0] | Mux(swapped, same[2], same[0]))
            & (~held[1] | Mux(swapped, same[3], same[1]))
        ),
    )
    h.invariant("the two flows differ", ~held.all() | (keys[0] != keys[1]))
    h.invariant("no change is written before the table is ready", dut.ready | (inside["writes"] == 0))
    h.invariant("nothing is held before the table is ready", dut.ready | (held == 0))
    h.claim("the table gets ready, and stays so", dut.ready | ~h.past(dut.ready) | ~h.running(1))
    for place in range(2):
        h.cover(f"a flow in place {place} is found", asked & held.all() & (known == 1) & (
            (is_first, is_second)[place]))  # fmt: skip
    h.cover("a third flow is stored", asked & store & held.all() & ~known)
    h.cover("a flow is freed", asked & free & held.all() & is_second)


_TABLE = "frame.flow_table"
PROOFS = (
    Proof(
        "flow_table",
        flow_table,
        5,
        (
            Fault(_TABLE, "same[1:]", "same[1:3], 1"),
            Fault(_TABLE, "(hits & others).any()", "others.any()"),
            Fault(_TABLE, "(~second.known | (first", "(second.known & (first"),
            Fault(_TABLE, "newer_held[1 - way] ^ way", "newer_held[way] ^ way"),
            Fault(_TABLE, "entry.known.eq(~self.free)", "entry.known.eq(1)"),
            Fault(_TABLE, "self.busy.eq(writes.any())", "self.busy.eq(0)"),
            Fault(_TABLE, "(chosen & (self.store | self.add))", "(chosen & self.store)"),
        ),  # fmt: skip
        cover_depth=20,
        refute_depth=26,
    ),
)
