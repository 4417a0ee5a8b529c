# SPDX-License-Identifier: BSD-2-Clause
"""A block in, words of a payload out: what the serial decompressors of both codecs share."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from inceptionn.wire import GROUP_LANES, MAX_LANES

from ..codec.shape import EngineShape
from ..parts.memory import BlockRam


class Decompressor(wiring.Component):
    """Restores one block after the other, 8 words in :attr:`period` cycles.

    ::

        address ··► word ─┬─ slot 0 ─► table ──► places ─┐
                          └─ others ─► rotation ─────────┴─► codec ─► words

    The block is read from a memory, in which it begins at byte 2 of word 0. It is *malformed* if table and
    data do not fill it exactly, or break a rule of the codec. Its words still come, all of them; their
    contents are arbitrary from the faulty group on. Base of :class:`.paper.decompressor.Decompressor` and
    :class:`.planes.decompressor.Decompressor`.
    """

    WORD_LATENCY = BlockRam.LATENCY
    """Cycles from ``address`` to ``word``."""
    TABLE_WORDS = GROUP_LANES
    """Words of the payload for each 16-bit word of the table."""
    PLACE_BITS = 14
    """Of a byte's place in the store: table and data of the longest payload end below 16384."""

    SLACK = 2 * GROUP_LANES
    """Words that may come after ``room`` has fallen."""

    def __init__(self, shape: EngineShape):
        self.shape = shape
        super().__init__(
            {
                "base": In(8),  #: Byte 3 of the shim: B, E0 or E0 + 128. Holds until ``done``.
                "start": In(1),  #: A block begins. Not before the previous one is done.
                "count": In(range(MAX_LANES + 1)),  #: The payload's words, at least 1; holds until ``done``.
                "length": In(self.PLACE_BITS),  #: Bytes of the block; holds until ``done``.
                "address": Out(self.PLACE_BITS - 2),  #: Of a word of the block.
                "word": In(32),  #: :attr:`WORD_LATENCY` cycles after its address.
                "room": In(1),  #: There is room for a group's words. Else the next group waits.
                "words": Out(stream.Signature(32, always_ready=True)),  #: ``count`` of them.
                "done": Out(1),  #: For one cycle: all words are out.
                "malformed": Out(1),  #: From ``done`` to the next ``start``: the block is malformed.
            }
        )

    @property
    def period(self) -> int:
        """Cycles in which a group is read."""
        raise NotImplementedError

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        # Slots: a group waits for room in slot 0, in which it asks for its word of the table.
        self._slot = slot = Signal(range(self.period))
        self._left = left = Signal.like(self.count)  # words of this group and those after it
        self._group = group = Signal(range(MAX_LANES // GROUP_LANES))
        self._last = last = Signal()
        active = Signal()
        runs = Signal()
        self.probes = {
            "slot": slot, "left": left, "active": active, "last": last, "runs": runs, "group": group,
        }  # fmt: skip
        final = slot == self.period - 1
        m.d.comb += [last.eq(left <= GROUP_LANES), runs.eq((slot != 0) | (active & self.room))]
        with m.If(self.start):
            m.d.sync += [active.eq(1), slot.eq(0), left.eq(self.count), group.eq(0)]
        with m.Elif(runs):
            m.d.sync += slot.eq(Mux(final, 0, slot + 1))
            with m.If(final):
                m.d.sync += [left.eq(left - GROUP_LANES), group.eq(group + 1), active.eq(~last)]

        # Halves of the table from half 1 of the memory on; behind them the data, and `place` in these.
        table_half = Signal(range(2 + MAX_LANES // self.TABLE_WORDS))
        halves = (self.count + self.TABLE_WORDS - 1)[exact_log2(self.TABLE_WORDS) :]
        self._place = Signal(self.PLACE_BITS)
        self.probes["table_half"] = table_half
        data_address = self._decode(m, runs, self.word.word_select(table_half[0], 16))
        with m.If(self.start):
            m.d.sync += [self._place.eq((halves << 1) + 2), table_half.eq(1), self.malformed.eq(0)]
        with m.Elif(runs & final):  # for the next group
            m.d.sync += table_half.eq(((group + 1) >> exact_log2(self.TABLE_WORDS // GROUP_LANES)) + 1)
        m.d.comb += self.address.eq(Mux(slot == 0, table_half[1:], data_address))
        return m

    def _decode(self, m: Module, runs: Value, table: Value) -> Value:
        """Return the address of the slots behind slot 0; drive ``_place``, the words and what follows them.

        ``table``: the group's word, :attr:`WORD_LATENCY` slots after slot 0.
        """
        raise NotImplementedError
