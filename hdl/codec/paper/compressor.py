# SPDX-License-Identifier: BSD-2-Clause
"""The paper's Fig. 9: bursts of fp32 lanes in, blocks out."""

from typing import Any

from amaranth.hdl import Module, Mux, Value
from amaranth.lib import wiring

from inceptionn.wire import GROUP_LANES

from ...parts.pipeline import Pipeline
from .. import compressor
from ..block_store import BlockStore
from .block_statistics import BlockStatistics, Statistics
from .compression_unit import CompressionUnit
from .tag_table import TagTable


class Compressor(compressor.Compressor):
    """Compresses lanes into blocks of tag words and vectors (paper, Fig. 9).

    ::

        burst ─► CompressionUnit ─┬─ vector, size ─► AlignmentUnit ─► data ring ─┐
                                  └─ tag words ────► TagTable ──────► tag ring ──┴─ BlockStore ─► beat

    A block can be read 22 cycles after its last burst, with 16 lanes 26. With 16 lanes, some blocks need an
    idle cycle (:class:`TagTable`).

    Parameters and members are those of the base.
    """

    STATISTICS = Statistics

    def _unit(self, m: Module) -> tuple[int, Value, Value]:
        m.submodules.unit = self._compression = unit = CompressionUnit(self.width)
        m.d.comb += [
            unit.burst.eq(self.bursts.payload.lanes),
            unit.present.eq(Mux(self.bursts.valid, self.bursts.payload.present, 0)),
            unit.e0.eq(self.parameters.e0),
            unit.t.eq(self.parameters.t),
            unit.b.eq(self.parameters.b),
        ]
        return unit.latency, unit.aligned, unit.size

    def _table(self, m: Module, marks: Pipeline, store: BlockStore) -> Value | int:
        m.submodules.table = table = TagTable(self.width)
        words = table.words.payload
        wiring.connect(m, table.beats, store.tags)
        m.d.comb += [
            table.words.valid.eq(marks.valid),
            words.first.eq(marks.first),
            words.last.eq(marks.last),
            words.place.eq(marks.place),
            words.words.eq(self._compression.tags),
        ]
        if self.width.groups == 1:
            return 1
        both = marks.present[GROUP_LANES]
        m.d.comb += words.both.eq(both)
        return 1 + both

    def _statistics(self, m: Module, marks: Pipeline) -> Any:
        statistics = BlockStatistics(self.width)
        burst = statistics.bursts.payload
        m.d.comb += [
            statistics.bursts.valid.eq(marks.valid),
            burst.last.eq(marks.last),
            burst.tags.eq(self._compression.tags),
            burst.present.eq(marks.present),
            burst.cleared.eq(self._compression.cleared),
        ]
        return statistics
