# SPDX-License-Identifier: BSD-2-Clause
"""From blocks as they arrive to the beats of their tables, of their data, and their ends."""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from inceptionn.wire import MAX_LANES

from ..parts.pipeline import Pipeline
from ..parts.width import BURST, Width
from .table_decoder import BEAT_BITS, position_bits, table_beat


def block_beat(width: Width = BURST) -> data.StructLayout:
    """Return the layout of a beat of a block."""
    return data.StructLayout(
        {
            "data": width.bits,
            "keep": width.bytes,  # which bytes exist: the lower ones; all but in the last beat
            "last": 1,
            # With the block's first beat alone: the lanes announced, or pairs of bf16 lanes; byte 3 of the
            # shim (B, E0, or for bf16 E0 + 128).
            "lanes": 16,
            "base": 8,
        }
    )


def block_end(width: Width = BURST) -> data.StructLayout:
    """Return the layout of a block's end."""
    return data.StructLayout(
        {
            # Position of the block's last byte, as long as all its beats were kept.
            "position": position_bits(width),
            # The block ended inside its table, or beats of it were dropped.
            "fault": 1,
        }
    )


def _top_byte(keep: Value) -> Value:
    """Return the index of the highest set bit of a ``tkeep`` whose low bits are set."""
    bits = []
    for bit in range(exact_log2(len(keep))):
        step = 1 << bit
        edges = range(step, len(keep), 2 * step)
        # Bit `bit` of the index is set from edge to edge + step - 1.
        bits.append(Cat(keep[i] & ~(keep[i + step] if i + step < len(keep) else 0) for i in edges).any())
    return Cat(*bits)


class BlockSplitter(wiring.Component):
    """Sorts a block's beats into table and data. The beat that holds the first data byte may go to both.

    One beat per cycle. Table and data leave two cycles after their beat, a block's end one cycle later.

    Parameters
    ----------
    word_lanes : :class:`int`
        Lanes of a 16-bit word of the table, a power of two.
    width : :class:`Width`
    """

    def __init__(self, word_lanes: int, width: Width = BURST):
        self.word_lanes = word_lanes
        self.width = width
        # Lanes per word of the table, words per beat and beats per table are powers of two, so the fields of
        # the lane count minus one are: lanes of the last word, words of the last beat, beats.
        self._at_word = exact_log2(word_lanes)
        self._at_beat = self._at_word + exact_log2(self.width.words)
        super().__init__(
            {
                "beats": In(stream.Signature(block_beat(width), always_ready=True)),  #: Of the blocks.
                "room": Out(1),  #: A register: beats may come.
                "o_room": In(1),  #: Room downstream; ``room`` follows one cycle later.
                #: The current block has more beats than announced. They are accepted and dropped.
                "surplus": In(1),
                "newest": In(BEAT_BITS),  #: As of :class:`.ring_window.RingWindow`, which stores ``data``.
                "following": In(BEAT_BITS),  #: Likewise.
                #: Beats of the blocks' tables.
                "table": Out(stream.Signature(table_beat(width), always_ready=True)),
                #: Beats of the blocks' data.
                "data": Out(stream.Signature(self.width.bits, always_ready=True)),
                "ends": Out(stream.Signature(block_end(width), always_ready=True)),  #: One per block.
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        source = self.beats.payload
        bad_count = (source.lanes == 0) | (source.lanes > MAX_LANES)
        taken = Pipeline(m, "taken_", control={"valid"})
        taken.stage(
            valid=self.beats.valid,
            beat=source.data,
            last_byte=_top_byte(source.keep),
            # Lanes minus one: a block with an unusable count is read as one of a full burst.
            more=Mux(bad_count, self.width.lanes - 1, source.lanes - 1)[:12],
            unusable=bad_count,
            base=source.base,
            ends=source.last,
        )
        valid, ends, more = taken.valid, taken.ends, taken.more
        full = more[self._at_word : self._at_beat].all()
        has_table, has_data, table_cut = self._parts(m, valid, ends, more[self._at_beat :], full)

        # If a block has ended within the last four cycles, `surplus` may still be about that one.
        recent = Signal(4)
        m.d.sync += recent.eq(Cat(valid & ends, recent))
        drop = self.surplus & ~recent.any()
        dropped = Signal()
        was_dropped = dropped | (has_data & drop)
        with m.If(valid):
            m.d.sync += dropped.eq(was_dropped & ~ends)

        # A register between the choice and the buffers, which lie apart.
        p = Pipeline(m, "sorted_", control={"to_table", "to_data"})
        p.let(last_byte=taken.last_byte, fault=table_cut | was_dropped)
        p.stage(
            to_table=valid & has_table,
            to_data=valid & has_data & ~drop,
            beat=taken.beat,
            ends=ends,
            more=more,
            full=full,
            base=taken.base,
            unusable=taken.unusable,
        )
        table, at_burst = self.table.payload, exact_log2(self.width.lanes)
        # Data start after the table's words; the byte before is an odd one.
        origin_beat = Mux(p.full, self.newest, self.following)
        m.d.comb += [
            self.table.valid.eq(p.to_table),
            table.data.eq(p.beat),
            table.ends.eq(p.ends),
            table.block.more_groups.eq(p.more[at_burst:]),
            table.block.more_lanes.eq(p.more[:at_burst]),
            table.block.base.eq(p.base),
            table.block.unusable.eq(p.unusable),
            table.block.origin.eq(Cat(Const(1, 1), p.more[self._at_word : self._at_beat], origin_beat)),
            self.data.valid.eq(p.to_data),
            self.data.payload.eq(p.beat),
        ]

        # A cycle later, when `newest` counts the block's last beat.
        p.stage()
        end = self.ends.payload
        m.d.comb += [
            self.ends.valid.eq(recent[1]),
            end.position.eq(Cat(p.last_byte, self.newest)),
            end.fault.eq(p.fault),
        ]
        m.d.sync += self.room.eq(self.surplus | self.o_room)
        return m

    def _parts(
        self, m: Module, valid: Value, ends_here: Value, more_beats: Value, full: Value
    ) -> tuple[Signal, Signal, Signal]:
        """Tell whether the beat has words of the table, has data, or ends the block within the table.

        ``more_beats``: beats of the table less one; ``full``: data begin in a beat of their own.
        """
        first = Signal(init=1)
        in_table = Signal()
        table_ends = Signal()
        table_shares = Signal()
        beats_left = Signal(5)
        has_table = Signal()
        has_data = Signal()
        table_cut = Signal()
        m.d.comb += [
            has_table.eq(first | in_table),
            has_data.eq(Mux(first, (more_beats == 0) & ~full, ~in_table | (table_ends & table_shares))),
            table_cut.eq(Mux(first, more_beats != 0, in_table & ~table_ends)),
        ]
        with m.If(valid):
            m.d.sync += first.eq(ends_here)
            with m.If(first):
                m.d.sync += [
                    beats_left.eq(more_beats),
                    in_table.eq((more_beats != 0) & ~ends_here),
                    table_ends.eq(more_beats == 1),
                    table_shares.eq(~full),
                ]
            with m.Elif(in_table):
                m.d.sync += [
                    beats_left.eq(beats_left - 1),
                    in_table.eq(~table_ends & ~ends_here),
                    table_ends.eq(beats_left == 2),
                ]
        return has_table, has_data, table_cut
