# SPDX-License-Identifier: BSD-2-Clause
"""Bursts of fp32 lanes in, blocks out: what the compressors of both codecs share."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..parts.pipeline import Pipeline
from ..parts.width import BURST, Width
from .alignment_unit import AlignmentUnit
from .block_store import BlockReader, BlockStore, block_shape


class CodecParameters(data.Struct):
    """The numbers that lanes are compressed with (:class:`inceptionn.wire.paper.Parameters`)."""

    e0: 8
    t: 8
    b: 8


def lane_burst(width: Width = BURST) -> data.StructLayout:
    """Return the layout of a burst of a run of lanes that becomes a block."""
    return data.StructLayout(
        {
            "first": 1,
            "last": 1,
            "lanes": width.bits,
            # Which lanes exist; all but in the last burst, where the upper ones may be absent.
            "present": width.lanes,
            # Where in a beat the block is to begin, in 16-bit words; valid only with `first`.
            "place": range(width.words),
        }
    )


class Compressor(wiring.Component):
    """Compresses runs of up to 2304 lanes into blocks and keeps the blocks until they are read or dropped.

    ::

        burst ─► unit ─┬─ vector, size ─► AlignmentUnit ─► data ring ─┐
                       └─ tags or codes ► table ─────────► tag ring ──┴─ BlockStore ─► beat

    The base of :class:`.paper.compressor.Compressor` and :class:`.planes.compressor.Compressor`, which add
    the unit, the table at a block's head, and the statistics.

    One burst of 8 or 16 lanes per cycle while ``room`` is high; nothing stalls. A block can be read 10 cycles
    after its last vector has left the unit, with 16 lanes 11.

    With 8 lanes **the cycle after** ``last`` **must be idle** (:class:`AlignmentUnit`). With 16 the next
    block may follow at once, unless the codec's table needs an idle cycle.

    Parameters
    ----------
    statistics : :class:`bool`
        Whether to compute the checksums and class counts that the engine needs.
    width : :class:`Width`
    """

    STATISTICS: Any
    """Layout of a report."""

    def __init__(self, width: Width = BURST, *, statistics: bool = False):
        self.has_statistics = statistics
        self.width = width
        self.latency = BlockStore.latency_of(width)  # from `step` to its beat
        members = {
            #: Read together with every burst, and the same for all of a block.
            "parameters": In(CodecParameters),
            "bursts": In(stream.Signature(lane_burst(width), always_ready=True)),  #: The lanes.
            #: Bursts are accepted. After it falls, at most 10 more may follow, 16 with 16 lanes.
            "room": Out(1),
            "blocks": Out(BlockReader(width)),  #: The blocks that are ready, one at a time.
        }
        if statistics:
            #: With ``statistics=True``: one report per block, in order.
            members["statistics"] = Out(stream.Signature(self.STATISTICS, always_ready=True))
        super().__init__(members)

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.aligner = aligner = AlignmentUnit(self.width)
        m.submodules.store = store = BlockStore(self.width)
        wiring.connect(m, aligner.beats, store.data)
        wiring.connect(m, store.blocks, wiring.flipped(self.blocks))
        m.d.comb += self.room.eq(store.room)
        latency, vector, size = self._unit(m)
        p = self._marks(m, latency)
        valid, first, last, place = p.valid, p.first, p.last, p.place
        words_begun = self._table(m, p, store)
        m.d.comb += [
            aligner.vectors.valid.eq(valid),
            aligner.vectors.payload.last.eq(last),
            aligner.vectors.payload.size.eq(size),
            aligner.vectors.payload.data.eq(vector),
        ]

        if self.has_statistics:
            m.submodules.statistics = statistics = self._statistics(m, p)
            wiring.connect(m, aligner.beats, statistics.beats)
            wiring.connect(m, statistics.reports, wiring.flipped(self.statistics))
            m.d.comb += statistics.done.eq(aligner.done)

        # The block's shape, from the words before the table (`before`), those of the table, and its bytes.
        # It must not overtake the last data beat, which leaves the aligner up to a cycle after its latency.
        words = Signal(10)
        length = Signal(14)
        before = Signal.like(place, reset_less=True)
        with m.If(valid):
            m.d.sync += length.eq(Mux(first, 0, length) + size)
        p.stage(begun=words_begun)
        p.let(length=length)
        valid, first, place, begun = p.valid, p.first, p.place, p.begun
        with m.If(valid):
            m.d.sync += words.eq(Mux(first, place, words) + begun)
        with m.If(valid & first):
            m.d.sync += before.eq(place)
        p.stage()
        p.let(words=words, table_words=(words - before)[:9])
        p.stage(total=(p.words << 1) + p.length, block_bytes=(p.length + (p.table_words << 1))[:14])
        shape = Signal(block_shape(self.width))
        at_word, at_byte = len(shape.rotation), len(shape.ending)
        m.d.comb += [
            shape.tag_beats.eq(p.words[at_word:] + p.words[:at_word].any()),
            shape.tag_whole.eq(p.words[at_word:]),
            shape.data_beats.eq(p.length[at_byte:] + p.length[:at_byte].any()),
            shape.beats.eq(p.total[at_byte:] + p.total[:at_byte].any()),
            shape.rotation.eq(p.words[:at_word]),
            shape.ending.eq(p.total[:at_byte]),
        ]
        p.let(shape=shape)
        if self.has_statistics:
            m.d.comb += statistics.block_bytes.eq(p.block_bytes)
        p.until(latency + aligner.latency + 2)
        m.d.comb += [store.shapes.valid.eq(p.last), store.shapes.payload.eq(p.shape)]
        return m

    def _marks(self, m: Module, cycles: int, prefix: str = "") -> Pipeline:
        """Mark each burst, ``cycles`` later: valid, its block's first or last, its place and its lanes."""
        valid, burst = self.bursts.valid, self.bursts.payload
        p = Pipeline(m, prefix, control={"valid", "first", "last"})
        p.let(
            valid=valid,
            first=valid & burst.first,
            last=valid & burst.last,
            place=burst.place,
            present=burst.present,
        )
        p.until(cycles)
        return p

    def _unit(self, m: Module) -> tuple[int, Value, Value]:
        """Add the unit; return the cycles from a burst to its vector, the vector, and the vector's bytes."""
        raise NotImplementedError

    def _table(self, m: Module, marks: Pipeline, store: BlockStore) -> Value | int:
        """Add the table and give its beats to the store; return how many words begin with this vector."""
        raise NotImplementedError

    def _statistics(self, m: Module, marks: Pipeline) -> Any:
        """Make the component that reports on each block, connected to the unit and the table."""
        raise NotImplementedError
