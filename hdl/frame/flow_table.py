# SPDX-License-Identifier: BSD-2-Clause
"""The flow-phase table: the alignment of each TCP flow's 4-byte grid (wire format, section 7)."""

from typing import Any

from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from inceptionn.wire import FLOW_TABLE_SIZE

from ..parts.memory import BlockRam


class FlowKey(data.Struct):
    """One direction of a TCP connection, in host order."""

    source: 32
    destination: 32
    source_port: 16
    destination_port: 16


class _Entry(data.Struct):
    known: 1
    phase: 2
    key: FlowKey


def flow_index(key: Any) -> Value:
    """Return the slot of a flow, 10 bits, as :func:`inceptionn.wire.frames.flow_index` does."""
    fold = (
        key.source[:16]
        ^ key.source[16:].rotate_left(3)
        ^ key.destination[:16].rotate_left(5)
        ^ key.destination[16:].rotate_left(7)
        ^ key.source_port
        ^ key.destination_port.rotate_left(9)
    )
    width = (FLOW_TABLE_SIZE - 1).bit_length()
    return (fold ^ fold[width:])[:width]


class FlowTable(wiring.Component):
    """1024 flows and their phase, direct-mapped; a newer flow displaces an older one.

    ``index`` and ``key`` must hold from the first to the last cycle of a look-up. ``known`` and ``phase`` are
    valid :attr:`LATENCY` cycles after the first. ``learn`` is accepted from then on. It takes effect with the
    next look-up, which may begin one cycle later. After reset the table clears itself, one slot per cycle,
    before ``ready`` rises.
    """

    LATENCY = BlockRam.LATENCY + 1

    ready: Out(1)  #: The table is clear; before that no look-up.
    index: In(range(FLOW_TABLE_SIZE))  #: :func:`flow_index` of ``key``.
    key: In(FlowKey)  #: Of the flow that is looked up.
    known: Out(1)  #: The table holds ``key``.
    phase: Out(2)  #: Undefined unless ``known``.
    learn: In(1)  #: Stores ``key`` with ``learn_phase``.
    learn_phase: In(2)  #: Phase to store.

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.ram = ram = BlockRam(_Entry.as_shape().size, FLOW_TABLE_SIZE)
        entry = Signal(_Entry)
        found = data.View(_Entry, ram.read_data)
        sweep = Signal(range(FLOW_TABLE_SIZE))
        m.d.comb += [
            entry.known.eq(self.ready),
            entry.phase.eq(self.learn_phase),
            entry.key.eq(self.key),
            ram.read_address.eq(self.index),
            ram.write_data.eq(entry),
            ram.write.eq(self.learn | ~self.ready),
        ]
        with m.If(~self.ready):
            m.d.comb += ram.write_address.eq(sweep)
            m.d.sync += sweep.eq(sweep + 1)
            with m.If(sweep.all()):
                m.d.sync += self.ready.eq(1)
        with m.Else():
            m.d.comb += ram.write_address.eq(self.index)

        # The keys are compared in eight parts, which are joined in the cycle that uses the answer.
        equal = Signal(8)
        stored, wanted = Cat(found.key.as_value()), Cat(self.key.as_value())
        part = len(wanted) // len(equal)
        known = Signal()
        phase = Signal(2)
        m.d.sync += [
            equal.eq(
                Cat(stored.word_select(i, part) == wanted.word_select(i, part) for i in range(len(equal)))
            ),
            known.eq(found.known),
            phase.eq(found.phase),
        ]
        m.d.comb += [self.known.eq(known & equal.all()), self.phase.eq(phase)]
        return m
