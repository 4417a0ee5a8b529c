# SPDX-License-Identifier: BSD-2-Clause
"""What the engine must know of a block of the planes codec: size, checksums, codes."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data
from amaranth.lib.wiring import In

from inceptionn.wire import CODES, GROUP_LANES

from ...parts.beat import Beat
from ...parts.checksum import OnesComplementSum, add16
from ...parts.delay import delayed
from .. import block_statistics
from .lane_quantiser import LaneQuantiser
from .plane_unit import CODE_BITS, PlaneUnit


class Statistics(data.Struct):
    """A finished block in numbers. Sums are of little-endian 16-bit words, modulo 65535."""

    block_bytes: 14  # code plane and data
    block_sum: 16  # of the block's bytes
    cleared_sum: 16  # original minus lossy payload
    counts: data.ArrayLayout(9, CODES)  # groups by code


class BlockStatistics(block_statistics.BlockStatistics):
    """Sums and counts over one block (:class:`~..block_statistics.BlockStatistics`).

    Parameters
    ----------
    lanes : :class:`int`
        Lanes of a burst: 8 or 16.

    Members
    -------
    valid, last : :py:`In(1)`
        A vector from the Plane Unit; the block's last.
    codes : :py:`In(lanes // 2)`
    upper : :py:`In(1)`
        Only with 16 lanes: the upper group exists. Always but with ``last``.
    gained_valid, gained_last : :py:`In(1)`
    gained : :py:`In(32 * lanes)`
    carries : :py:`In(lanes)`
        What the burst's lanes gained: earlier than its vector, by the latency of the Plane Unit less that of
        the quantisers.
    word, word_valid, word_last
        The Code Plane's words.
    block_bytes : :py:`In(14)`
        Size of the block, three cycles after ``last``.
    beat_valid, beat, done
        The Alignment Unit's output for the same vectors.
    report : :py:`Out(Statistics)`
    report_valid : :py:`Out(1)`
    """

    def __init__(self, *, lanes: int = GROUP_LANES):
        super().__init__(
            lanes,
            Statistics,
            {
                "codes": In(CODE_BITS * Beat(lanes).groups),
                **({"upper": In(1)} if Beat(lanes).groups > 1 else {}),
                "gained_valid": In(1),
                "gained_last": In(1),
                "gained": In(Beat(lanes).bits),
                "carries": In(lanes),
                "word": In(16),
                "word_valid": In(1),
                "word_last": In(1),
            },
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        waits = self.latency
        ending = self.valid & self.last
        m.d.comb += self.report_valid.eq(delayed(m, ending, waits, name="report", reset=True))

        # What the lossy payload gained over the original, early; the complement is what it lost.
        m.submodules.gained_sum = gained_sum = OnesComplementSum(lanes=self.lanes, carries=True)
        m.d.comb += [
            gained_sum.valid.eq(self.gained_valid),
            gained_sum.last.eq(self.gained_valid & self.gained_last),
            gained_sum.beat.eq(self.gained),
            gained_sum.carry.eq(self.carries),
        ]
        lead = PlaneUnit.latency_of(self.width) - LaneQuantiser.LATENCY
        gained_waits = waits + lead - gained_sum.latency
        gained = delayed(m, gained_sum.sums.payload, gained_waits, name="gained_sum")

        # Groups by code, counted in the cycle before the report, when everything else is there.
        codes = delayed(m, self.codes, waits - 1, name="codes")
        counted = [delayed(m, self.valid, waits - 1, name="counted", reset=True)]
        if self.width.groups > 1:
            counted.append(delayed(m, self.valid & self.upper, waits - 1, name="counted_upper", reset=True))
        for code in range(CODES):
            hits = [
                counts & (codes.word_select(group, CODE_BITS) == code) for group, counts in enumerate(counted)
            ]
            hit = Signal(len(hits), name=f"hits_{code}")
            groups = Signal(9, name=f"groups_{code}")
            m.d.sync += hit.eq(sum(hits[1:], hits[0]))
            total = (groups + hit)[:9]
            m.d.sync += groups.eq(Mux(self.report_valid, 0, total))
            m.d.comb += self.report.counts[code].eq(total)

        plane_sum = self._sum_words(m, Mux(self.word_valid, self.word, 0), self.word_last)
        m.d.comb += [
            self.report.block_bytes.eq(delayed(m, self.block_bytes, waits - 3, name="block_bytes")),
            self.report.block_sum.eq(
                add16(self._sum_data(m), delayed(m, plane_sum, waits - 4, name="plane_late"))
            ),
            self.report.cleared_sum.eq(~gained),
        ]
        return m
