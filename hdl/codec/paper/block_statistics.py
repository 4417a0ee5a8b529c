# SPDX-License-Identifier: BSD-2-Clause
"""What the engine must know of a block before it decides on the frame: size, checksums, classes."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data

from inceptionn.wire import GROUP_LANES, Tag

from ...parts.checksum import OnesComplementSum, add16
from ...parts.delay import delayed
from .. import block_statistics


class Statistics(data.Struct):
    """A finished block in numbers. Sums are of little-endian 16-bit words, modulo 65535."""

    block_bytes: 14  # tag plane and data
    block_sum: 16  # of the block's bytes
    cleared_sum: 16  # of the bits that the lossy payload lacks: original minus lossy
    counts: data.ArrayLayout(12, 4)  # lanes by tag; absent lanes are not counted


def compressed_burst(lanes: int = GROUP_LANES) -> data.StructLayout:
    """The Compression Unit's output for a burst, without its vector."""
    return data.StructLayout(
        {
            "last": 1,  # of its block
            "tags": 2 * lanes,
            "present": lanes,  # which lanes of the burst exist
            "cleared": 32 * lanes,
        }
    )


class BlockStatistics(block_statistics.BlockStatistics):
    """Sums and counts over one block (:class:`~..block_statistics.BlockStatistics`).

    Parameters
    ----------
    lanes : :class:`int`
        Lanes of a burst: 8 or 16.

    Members
    -------
    bursts : :py:`In(stream.Signature(compressed_burst(lanes), always_ready=True))`
        With the burst's vector.
    block_bytes, beats, done, reports
        Of the base.
    """

    def __init__(self, *, lanes: int = GROUP_LANES):
        super().__init__(lanes, Statistics, {"bursts": compressed_burst(lanes)})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        valid, burst, report = self.bursts.valid, self.bursts.payload, self.reports.payload
        m.submodules.cleared_sum = cleared_sum = OnesComplementSum(lanes=self.lanes)
        m.d.comb += [
            cleared_sum.valid.eq(valid),
            cleared_sum.last.eq(valid & burst.last),
            cleared_sum.beat.eq(burst.cleared),
        ]
        join = self.width.groups - 1  # stages that join the groups of a burst

        # Tag words. The first register lets the adder lie far from the tags.
        ending = valid & burst.last
        tag1 = Signal(2 * self.lanes, reset_less=True)
        ending1 = Signal()
        m.d.sync += [tag1.eq(Mux(valid, burst.tags, 0)), ending1.eq(ending)]
        words = self._joined(m, tag1, 2 * GROUP_LANES, "words")
        words_end = delayed(m, ending1, join, name="words_end", reset=True) if join else ending1
        tag_sum = self._sum_words(m, words, words_end)

        # Lanes per class: which they are, a population count per group, then a sum.
        counted = Signal(data.ArrayLayout(12, 4))
        ending2 = delayed(m, ending1, 1 + join, name="ending", reset=True)
        lanes = Signal(data.ArrayLayout(12, 4), reset_less=True)
        for tag in Tag:
            name = tag.name.lower()
            hits = Signal(self.lanes, name=f"hits_{name}")
            for i in range(self.lanes):
                m.d.sync += hits[i].eq(valid & burst.present[i] & (burst.tags.word_select(i, 2) == tag))
            counts = []
            for at in range(0, self.lanes, GROUP_LANES):
                group = Signal(4, name=f"group_{name}" + (f"_{at}" if at else ""))
                m.d.sync += group.eq(sum(hits[at + 1 : at + GROUP_LANES], hits[at]))
                counts.append(group)
            total = (counted[tag] + self._joined(m, Cat(*counts), 4, f"burst_{name}"))[:12]
            m.d.sync += [counted[tag].eq(Mux(ending2, 0, total)), lanes[tag].eq(total)]

        # Everything waits for the data's sum.
        waits = self.latency
        cleared_waits = waits - cleared_sum.latency
        sum_of_data = self._sum_data(m)
        m.d.comb += [
            self.reports.valid.eq(delayed(m, ending, waits, name="report", reset=True)),
            report.block_bytes.eq(delayed(m, self.block_bytes, waits - 3, name="block_bytes")),
            report.block_sum.eq(add16(sum_of_data, delayed(m, tag_sum, waits - 4 - join, name="tag_sum"))),
            report.cleared_sum.eq(delayed(m, cleared_sum.sums.payload, cleared_waits, name="cleared_sum")),
            report.counts.eq(delayed(m, lanes.as_value(), waits - 3 - join, name="lanes")),
        ]
        return m

    @staticmethod
    def _joined(m: Module, value: Value, width: int, name: str) -> Value:
        """The one number of ``width`` bits in ``value``, or the sum of its two, a cycle later."""
        if len(value) == width:
            return value
        total = Signal(width + 1, name=name, reset_less=True)
        m.d.sync += total.eq(value[:width] + value[width:])
        return total
