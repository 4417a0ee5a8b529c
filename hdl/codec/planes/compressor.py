# SPDX-License-Identifier: BSD-2-Clause
"""The compressor of the planes codec: bursts of fp32 lanes in, blocks out."""

from typing import Any

from amaranth.hdl import Module, Mux, Value
from amaranth.lib import wiring

from inceptionn.wire import GROUP_LANES

from ...parts.pipeline import Pipeline
from .. import compressor
from ..block_store import BlockStore
from .block_statistics import BlockStatistics, Statistics
from .code_table import CodeTable
from .lane_quantiser import LaneQuantiser
from .plane_unit import PlaneUnit


class Compressor(compressor.Compressor):
    """Compresses lanes into blocks of codes and bit planes (wire format, section 9).

    ::

        burst ─► PlaneUnit ─┬─ vector, size ─► AlignmentUnit ─► data ring ─┐
                            └─ codes ────────► CodeTable ─────► tag ring ──┴─ BlockStore ─► beat

    A block can be read 20 cycles after its last burst, with 16 lanes 24. With 16 lanes no block needs an idle
    cycle. ``t`` and ``b`` are not used.

    Parameters and members are those of the base.
    """

    STATISTICS = Statistics

    def _unit(self, m: Module) -> tuple[int, Value, Value]:
        m.submodules.unit = self._planes = unit = PlaneUnit(self.width)
        m.d.comb += [
            unit.burst.eq(self.bursts.payload.lanes),
            unit.present.eq(Mux(self.bursts.valid, self.bursts.payload.present, 0)),
            unit.e0.eq(self.parameters.e0),
        ]
        return unit.latency, unit.aligned, unit.size

    def _table(self, m: Module, marks: Pipeline, store: BlockStore) -> Value | int:
        m.submodules.table = self._codes = table = CodeTable(self.width)
        codes = table.codes.payload
        wiring.connect(m, table.beats, store.tags)
        m.d.comb += [
            table.codes.valid.eq(marks.valid),
            codes.first.eq(marks.first),
            codes.last.eq(marks.last),
            codes.place.eq(marks.place),
            codes.codes.eq(self._planes.codes),
        ]
        return table.begins

    def _statistics(self, m: Module, marks: Pipeline) -> Any:
        statistics = BlockStatistics(self.width)
        quantised = self._marks(m, LaneQuantiser.LATENCY, "quantised_")
        burst, gain = statistics.bursts.payload, statistics.gains.payload
        wiring.connect(m, self._codes.words, statistics.words)
        m.d.comb += [
            statistics.gains.valid.eq(quantised.valid),
            gain.last.eq(quantised.last),
            gain.lanes.eq(self._planes.gained),
            gain.carries.eq(self._planes.carries),
            statistics.bursts.valid.eq(marks.valid),
            burst.last.eq(marks.last),
            burst.codes.eq(self._planes.codes),
        ]
        if self.width.groups > 1:
            m.d.comb += burst.upper.eq(marks.present[GROUP_LANES])
        return statistics
