# SPDX-License-Identifier: BSD-2-Clause
"""The flow-phase table: the alignment of each TCP flow's 4-byte grid (wire format, section 7)."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from inceptionn.wire import FLOW_TABLE_SIZE, FLOW_TABLE_WAYS

from ..parts.memory import BlockRam

FLOW_SETS = FLOW_TABLE_SIZE // FLOW_TABLE_WAYS
"""Sets of the flow-phase table, of two ways each."""


class FlowKey(data.Struct):
    """One direction of a TCP connection, in host order."""

    source: 32
    destination: 32
    source_port: 16
    destination_port: 16


class _Entry(data.Struct):
    known: 1
    newer: 1  # equal in both ways: way 0 was stored last; else way 1
    phase: 2
    key: FlowKey


def flow_index(key: Any) -> Value:
    """Return the set of a flow, 9 bits, as :func:`inceptionn.wire.frames.flow_index` does."""
    fold = (
        key.source[:16]
        ^ key.source[16:].rotate_left(3)
        ^ key.destination[:16].rotate_left(5)
        ^ key.destination[16:].rotate_left(7)
        ^ key.source_port
        ^ key.destination_port.rotate_left(9)
    )
    width = (FLOW_SETS - 1).bit_length()
    return fold[:width] ^ fold[len(fold) - width :]


class FlowTable(wiring.Component):
    """1024 flows and their phase: 512 sets of two ways.

    A flow that is stored keeps its way. A new one takes a free way of its set, the first before the second,
    or displaces the flow that was stored before the other.

    ``index``, ``key`` and ``phase`` must hold from the first to the last cycle of a look-up. ``known`` and
    ``differs`` are valid :attr:`LATENCY` cycles after the first. ``store``, ``add`` and ``free`` are accepted
    from then on: one of them in a look-up, in its last cycle. If it writes an entry, ``busy`` is high in the
    cycle after it, and no look-up may begin then. So no path leads from the comparison to the memory.

    After reset the table clears itself, one set per cycle, before ``ready`` rises.

    Parameters
    ----------
    sets : :class:`int`
        A power of two; fewer in a proof.
    """

    LATENCY = BlockRam.LATENCY + 1
    PARTS = 4
    """Parts of a key that are compared apart."""

    def __init__(self, sets: int = FLOW_SETS):
        self.sets = sets
        super().__init__(
            {
                "ready": Out(1),  #: The table is clear; before that no look-up.
                "busy": Out(1),  #: An entry is being written: no look-up may begin.
                "index": In(range(sets)),  #: :func:`flow_index` of ``key``.
                "key": In(FlowKey),  #: Of the flow that is looked up.
                "phase": In(2),  #: The phase that the flow is expected to have.
                "known": Out(1),  #: The table holds ``key``.
                "differs": Out(1),  #: The table holds ``key``, with another phase.
                "store": In(1),  #: Stores ``key`` with ``new_phase``.
                "add": In(1),  #: Does so unless ``known``.
                "free": In(1),  #: Removes ``key`` if it is ``known``.
                "new_phase": In(2),  #: Phase to store.
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        sweep = Signal(range(self.sets))
        address = Signal.like(sweep)
        with m.If(~self.ready):
            m.d.sync += sweep.eq(sweep + 1)
            with m.If(sweep.all()):
                m.d.sync += self.ready.eq(1)

        # Each way is a memory of its own, so that a write needs nothing of the other way's entry. Keys and
        # phases are compared in parts, which are joined in the cycle that uses the answer.
        rams = [BlockRam(_Entry.as_shape().size, self.sets) for _ in range(FLOW_TABLE_WAYS)]
        found = [data.View(_Entry, ram.read_data) for ram in rams]
        hits = Signal(FLOW_TABLE_WAYS)
        others = Signal(FLOW_TABLE_WAYS)
        for way, (ram, entry) in enumerate(zip(rams, found, strict=True)):
            m.submodules[f"way{way}"] = ram
            equal = Signal(self.PARTS, name=f"equal{way}")
            other = Signal(name=f"other{way}")
            stored, wanted = entry.key.as_value(), self.key.as_value()
            part = len(wanted) // self.PARTS
            same = [stored.word_select(i, part) == wanted.word_select(i, part) for i in range(self.PARTS)]
            m.d.sync += [equal.eq(Cat(entry.known & same[0], same[1:])), other.eq(entry.phase != self.phase)]
            m.d.comb += [hits[way].eq(equal.all()), others[way].eq(other)]

        # The way of a flow that is not there: a free one, else the older one.
        victim = Signal(range(FLOW_TABLE_WAYS))
        first, second = found
        newer = Cat(entry.newer for entry in found)
        newer_held = Signal.like(newer)
        m.d.sync += [
            victim.eq(first.known & (~second.known | (first.newer == second.newer))),
            newer_held.eq(newer),
        ]
        m.d.comb += [self.known.eq(hits.any()), self.differs.eq((hits & others).any())]

        # An entry is written a cycle after its look-up. By then another flow's index and key may be offered,
        # so registers hold what is written, and where.
        writes = Signal(FLOW_TABLE_WAYS)
        entries = [Signal(_Entry, name=f"entry{way}", reset_less=True) for way in range(FLOW_TABLE_WAYS)]
        place = Signal.like(self.index, reset_less=True)
        self.probes = {"sweep": sweep, "ways": rams, "writes": writes, "entries": entries, "place": place}
        m.d.sync += place.eq(self.index)
        m.d.comb += [self.busy.eq(writes.any()), address.eq(Mux(self.ready, place, sweep))]
        for way, (ram, entry) in enumerate(zip(rams, entries, strict=True)):
            chosen = ~hits.any() & (victim == way)
            m.d.sync += [
                entry.known.eq(~self.free),
                entry.newer.eq(newer_held[1 - way] ^ way),
                entry.phase.eq(self.new_phase),
                entry.key.eq(self.key),
                writes[way].eq((hits[way] & (self.store | self.free)) | (chosen & (self.store | self.add))),
            ]
            m.d.comb += [
                ram.read_address.eq(self.index),
                ram.write_address.eq(address),
                ram.write_data.eq(Cat(entry.known & self.ready, entry.as_value()[1:])),  # known: bit 0
                ram.write.eq(~self.ready | writes[way]),
            ]
        return m
