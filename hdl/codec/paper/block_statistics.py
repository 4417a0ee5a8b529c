# SPDX-License-Identifier: BSD-2-Clause
"""A block's size, checksums and classes, on which the engine's decision on the frame depends."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data

from inceptionn.wire import GROUP_LANES, Tag

from ...parts.checksum import OnesComplementSum, add16
from ...parts.pipeline import Pipeline
from ...parts.width import BURST, Width
from .. import block_statistics


class Statistics(data.Struct):
    """A finished block in numbers. Sums are of little-endian 16-bit words, modulo 65535."""

    block_bytes: 14  # tag table and data
    block_sum: 16  # of the block's bytes
    cleared_sum: 16  # of the bits that the lossy payload lacks: original minus lossy
    counts: data.ArrayLayout(12, 4)  # lanes by tag; absent lanes are not counted


def compressed_burst(width: Width = BURST) -> data.StructLayout:
    """Return the layout of the Compression Unit's output for a burst, without its vector."""
    return data.StructLayout(
        {
            "last": 1,  # of its block
            "tags": 2 * width.lanes,
            "present": width.lanes,  # which lanes of the burst exist
            "cleared": width.bits,
        }
    )


class BlockStatistics(block_statistics.BlockStatistics):
    """Sums and counts over one block (:class:`~..block_statistics.BlockStatistics`)."""

    def __init__(self, width: Width = BURST):
        super().__init__(width, Statistics, {"bursts": compressed_burst(width)})  #: With the burst's vector.

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        valid, burst, report = self.bursts.valid, self.bursts.payload, self.reports.payload
        m.submodules.cleared_sum = cleared_sum = OnesComplementSum(self.width)
        m.d.comb += [
            cleared_sum.valid.eq(valid),
            cleared_sum.last.eq(valid & burst.last),
            cleared_sum.beat.eq(burst.cleared),
        ]
        join = self.width.groups - 1  # stages that join the groups of a burst

        # Tag words. The first register lets the adder lie far from the tags.
        p = Pipeline(m, control={"ending"})
        p.let(ending=valid & burst.last)
        p.stage(words=Mux(valid, burst.tags, 0))
        if join:
            p.stage(words=p.words[: 2 * GROUP_LANES] + p.words[2 * GROUP_LANES :])
        tag_sum = self._sum_words(m, p.words, p.ending)

        # Lanes per class: which they are, a population count per group, then a sum.
        p.stage()
        counted = Signal(data.ArrayLayout(12, 4))
        lanes = Signal(data.ArrayLayout(12, 4), reset_less=True)
        for tag in Tag:
            name = tag.name.lower()
            hits = Signal(self.width.lanes, name=f"hits_{name}")
            for i in range(self.width.lanes):
                m.d.sync += hits[i].eq(valid & burst.present[i] & (burst.tags.word_select(i, 2) == tag))
            counts = []
            for at in range(0, self.width.lanes, GROUP_LANES):
                group = Signal(4, name=f"group_{name}" + (f"_{at}" if at else ""))
                m.d.sync += group.eq(sum(hits[at + 1 : at + GROUP_LANES], hits[at]))
                counts.append(group)
            count = counts[0]
            if join:
                count = Signal(5, name=f"burst_{name}", reset_less=True)
                m.d.sync += count.eq(counts[0] + counts[1])
            total = (counted[tag] + count)[:12]
            m.d.sync += [counted[tag].eq(Mux(p.ending, 0, total)), lanes[tag].eq(total)]

        # Everything waits for the data's sum.
        p.until(3)
        p.let(block_bytes=self.block_bytes)
        p.until(3 + join)
        p.let(lanes=lanes)
        p.stage()
        p.let(tag_sum=tag_sum)
        p.until(cleared_sum.latency)
        p.let(cleared_sum=cleared_sum.sums.payload)
        p.until(self.latency)
        m.d.comb += [
            self.reports.valid.eq(p.ending),
            report.block_bytes.eq(p.block_bytes),
            report.block_sum.eq(add16(self._sum_data(m), p.tag_sum)),
            report.cleared_sum.eq(p.cleared_sum),
            report.counts.eq(p.lanes),
        ]
        return m
