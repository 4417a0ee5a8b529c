# SPDX-License-Identifier: BSD-2-Clause
"""The compressor of the planes codec: bursts of fp32 lanes in, blocks out."""

from typing import Any

from amaranth.hdl import Module, Mux, Value

from inceptionn.wire import GROUP_LANES

from ...parts.delay import delayed
from .. import compressor
from ..block_store import BlockStore
from ..compressor import Marks
from .block_statistics import BlockStatistics, Statistics
from .code_plane import CodePlane
from .lane_quantiser import LaneQuantiser
from .plane_unit import PlaneUnit


class Compressor(compressor.Compressor):
    """Compresses lanes into blocks of codes and bit planes (wire format, section 9).

    ::

        burst ─► PlaneUnit ─┬─ vector, size ─► AlignmentUnit ─► data ring ─┐
                            └─ codes ────────► CodePlane ─────► tag ring ──┴─ BlockStore ─► beat

    A block can be read from 19 cycles after its last burst on, with 16 lanes 23. With 16 lanes no block needs
    an idle cycle. ``t`` and ``b`` are not used.

    Parameters and members are those of the base.
    """

    STATISTICS = Statistics

    def _unit(self, m: Module) -> tuple[int, Value, Value]:
        m.submodules.unit = self._planes = unit = PlaneUnit(lanes=self.lanes)
        m.d.comb += [
            unit.burst.eq(self.burst),
            unit.present.eq(Mux(self.valid, self.present, 0)),
            unit.e0.eq(self.e0),
        ]
        return unit.latency, unit.aligned, unit.size

    def _plane(self, m: Module, marks: Marks, store: BlockStore) -> Value | int:
        m.submodules.plane = self._codes = plane = CodePlane(lanes=self.lanes)
        m.d.comb += [
            plane.valid.eq(marks.valid),
            plane.first.eq(marks.first),
            plane.last.eq(marks.last),
            plane.place.eq(marks.place),
            plane.codes.eq(self._planes.codes),
            store.tag_valid.eq(plane.beat_valid),
            store.tag_beat.eq(plane.beat),
        ]
        return plane.begins

    def _statistics(self, m: Module, marks: Marks) -> Any:
        statistics = BlockStatistics(lanes=self.lanes)
        quantised = self._marks(m, LaneQuantiser.LATENCY)
        m.d.comb += [
            statistics.gained_valid.eq(quantised.valid),
            statistics.gained_last.eq(quantised.last),
            statistics.gained.eq(self._planes.gained),
            statistics.carries.eq(self._planes.carries),
            statistics.valid.eq(marks.valid),
            statistics.last.eq(marks.last),
            statistics.codes.eq(self._planes.codes),
            statistics.word.eq(self._codes.word),
            statistics.word_valid.eq(self._codes.word_valid),
            statistics.word_last.eq(self._codes.word_last),
        ]
        if self.width.groups > 1:
            m.d.comb += statistics.upper.eq(delayed(m, self.present[GROUP_LANES], marks.cycles, name="upper"))
        return statistics
