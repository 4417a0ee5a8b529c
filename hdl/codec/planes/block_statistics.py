# SPDX-License-Identifier: BSD-2-Clause
"""Size, checksums and codes of a block of the planes codec, on which the engine's decision depends."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data

from inceptionn.wire import CODES

from ...parts.checksum import OnesComplementSum, add16
from ...parts.delay import delayed
from ...parts.pipeline import Pipeline
from ...parts.width import BURST, Width
from .. import block_statistics
from ..word_table import table_words
from .lane_quantiser import LaneQuantiser
from .plane_unit import CODE_BITS, PlaneUnit


class Statistics(data.Struct):
    """A finished block in numbers. Sums are of little-endian 16-bit words, modulo 65535."""

    block_bytes: 14  # code table and data
    block_sum: 16  # of the block's bytes
    cleared_sum: 16  # original minus lossy payload
    counts: data.ArrayLayout(9, CODES)  # groups by code


def coded_burst(width: Width = BURST) -> data.StructLayout:
    """Return the layout of a burst's groups."""
    groups = width.groups
    return data.StructLayout(
        {
            "last": 1,  # of its block
            "codes": CODE_BITS * groups,
            # Only of two groups: the upper one exists. Always but with `last`.
            **({"upper": 1} if groups > 1 else {}),
        }
    )


def burst_gain(width: Width = BURST) -> data.StructLayout:
    """Return the layout of a burst's gain, its lossy minus its original lanes.

    ``lanes`` has 32 bits of each lane, ``carries`` what is to be added: a bit for each, with bf16 lanes two.
    """
    return data.StructLayout({"last": 1, "lanes": width.bits, "carries": width.lanes << width.bf16})


class BlockStatistics(block_statistics.BlockStatistics):
    """Sums and counts over one block (:class:`~..block_statistics.BlockStatistics`)."""

    def __init__(self, width: Width = BURST):
        super().__init__(
            width,
            Statistics,
            {
                "bursts": coded_burst(width),  #: With its vector.
                #: Earlier than the burst's vector, by the Plane Unit's latency minus the quantisers'.
                "gains": burst_gain(width),
                "words": table_words(width),  #: Of the Code Table.
            },
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        valid, burst, report = self.bursts.valid, self.bursts.payload, self.reports.payload

        # What the lossy payload gained over the original, early; the complement is what it lost.
        carries = len(self.gains.payload.carries)
        m.submodules.gained_sum = gained_sum = OnesComplementSum(self.width, carries=carries)
        m.d.comb += [
            gained_sum.valid.eq(self.gains.valid),
            gained_sum.last.eq(self.gains.valid & self.gains.payload.last),
            gained_sum.beat.eq(self.gains.payload.lanes),
            gained_sum.carry.eq(self.gains.payload.carries),
        ]
        lead = PlaneUnit.latency_of(self.width) - LaneQuantiser.LATENCY
        gained_waits = self.latency + lead - gained_sum.latency
        gained = delayed(m, gained_sum.sums.payload, gained_waits, name="gained_sum")

        # The first register lets the adder lie far from the Code Table.
        words = Pipeline(m, "plane_", control={"ending"})
        words.stage(words=Mux(self.words.valid, self.words.payload.words, 0), ending=self.words.payload.last)
        plane_sum = self._sum_words(m, words.words, words.ending)
        p = Pipeline(m, control={"valid", "upper", "ending"})
        p.let(valid=valid, ending=valid & burst.last, codes=burst.codes)
        if self.width.groups > 1:
            p.let(upper=valid & burst.upper)
        p.until(3)
        p.let(block_bytes=self.block_bytes)
        p.until(5)
        p.let(plane_sum=plane_sum)

        # Groups by code, counted in the cycle before the report, when everything else is there.
        p.until(self.latency - 1)
        counted = [p.valid, p.upper] if self.width.groups > 1 else [p.valid]
        codes = p.codes
        for code in range(CODES):
            hits = [
                counts & (codes.word_select(group, CODE_BITS) == code) for group, counts in enumerate(counted)
            ]
            hit = Signal(len(hits), name=f"hits_{code}")
            groups = Signal(9, name=f"groups_{code}")
            m.d.sync += hit.eq(sum(hits[1:], hits[0]))
            total = (groups + hit)[:9]
            m.d.sync += groups.eq(Mux(self.reports.valid, 0, total))
            m.d.comb += report.counts[code].eq(total)

        p.stage()
        m.d.comb += [
            self.reports.valid.eq(p.ending),
            report.block_bytes.eq(p.block_bytes),
            report.block_sum.eq(add16(self._sum_data(m), p.plane_sum)),
            report.cleared_sum.eq(~gained),
        ]
        return m
