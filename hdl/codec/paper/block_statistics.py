# SPDX-License-Identifier: BSD-2-Clause
"""What the engine must know of a block before it decides on the frame: size, checksums, classes."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from inceptionn.wire import GROUP_LANES, Tag

from ...parts.beat import Beat
from ...parts.checksum import OnesComplementSum, add16
from ...parts.delay import delayed
from ..alignment_unit import AlignmentUnit


class Statistics(data.Struct):
    """A finished block in numbers. Sums are of little-endian 16-bit words, modulo 65535."""

    block_bytes: 14  # tag plane and data
    block_sum: 16  # of the block's bytes
    cleared_sum: 16  # of the bits that the lossy payload lacks: original minus lossy
    lanes: data.ArrayLayout(12, 4)  # by tag; absent lanes are not counted


class BlockStatistics(wiring.Component):
    """Sums and counts over one block.

    The report follows the block's last burst after :attr:`latency` cycles: 12, with 16 lanes 14. With 8 lanes
    there is at least one idle cycle between blocks, with 16 there need be none.

    Parameters
    ----------
    lanes : :class:`int`
        Lanes of a burst: 8 or 16.

    Members
    -------
    valid, last : :py:`In(1)`
        A burst from the Compression Unit; the block's last.
    tags : :py:`In(2 * lanes)`
    present : :py:`In(lanes)`
        Which lanes of the burst exist.
    cleared : :py:`In(32 * lanes)`
    block_bytes : :py:`In(14)`
        Size of the block, three cycles after ``last``.
    beat_valid, beat, done
        The Alignment Unit's output for the same bursts.
    report : :py:`Out(Statistics)`
    report_valid : :py:`Out(1)`
    """

    def __init__(self, *, lanes: int = GROUP_LANES):
        self.lanes = lanes
        self.width = Beat.of_groups(lanes)
        self.latency = self.latency_of(self.width)
        super().__init__(
            {
                "valid": In(1),
                "last": In(1),
                "tags": In(2 * lanes),
                "present": In(lanes),
                "cleared": In(self.width.bits),
                "block_bytes": In(14),
                "beat_valid": In(1),
                "beat": In(self.width.bits),
                "done": In(1),
                "report": Out(Statistics),
                "report_valid": Out(1),
            }
        )

    @staticmethod
    def latency_of(width: Beat) -> int:
        """Cycles from a block's last burst to its report."""
        # The data's sum comes last. A block's last beat may leave the aligner one cycle after its latency.
        return AlignmentUnit.latency_of(width) + 1 + OnesComplementSum.latency_of(width)

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.cleared_sum = cleared_sum = OnesComplementSum(lanes=self.lanes)
        m.submodules.data_sum = data_sum = OnesComplementSum(lanes=self.lanes)
        m.d.comb += [
            cleared_sum.valid.eq(self.valid),
            cleared_sum.last.eq(self.valid & self.last),
            cleared_sum.beat.eq(self.cleared),
            data_sum.valid.eq(self.beat_valid),
            data_sum.last.eq(self.done),
            data_sum.beat.eq(self.beat),
        ]
        join = self.width.groups - 1  # stages that join the groups of a burst

        # Tag words: 288 of them fit 25 bits. A register in front, since the adder may lie far from the tags.
        ending = self.valid & self.last
        tag1 = Signal(2 * self.lanes, reset_less=True)
        ending1 = Signal()
        m.d.sync += [tag1.eq(Mux(self.valid, self.tags, 0)), ending1.eq(ending)]
        tag_total = Signal(25)
        tag_finished = Signal(25, reset_less=True)
        tag_folded = Signal(17, reset_less=True)
        tag_sum = Signal(16, reset_less=True)
        words = self._joined(m, tag1, 2 * GROUP_LANES, "words")
        words_end = delayed(m, ending1, join, name="words_end", reset=True) if join else ending1
        accumulated = (tag_total + words)[:25]
        m.d.sync += [
            tag_total.eq(Mux(words_end, 0, accumulated)),
            tag_finished.eq(accumulated),
            tag_folded.eq(tag_finished[:16] + tag_finished[16:]),
            tag_sum.eq(tag_folded[:16] + tag_folded[16]),
        ]

        # Lanes per class: which they are, a population count per group, then a sum.
        counted = Signal(data.ArrayLayout(12, 4))
        ending2 = delayed(m, ending1, 1 + join, name="ending", reset=True)
        lanes = Signal(data.ArrayLayout(12, 4), reset_less=True)
        for tag in Tag:
            name = tag.name.lower()
            hits = Signal(self.lanes, name=f"hits_{name}")
            for i in range(self.lanes):
                m.d.sync += hits[i].eq(self.valid & self.present[i] & (self.tags.word_select(i, 2) == tag))
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
        sum_of_data = self._data_sum(m, data_sum)
        m.d.comb += [
            self.report_valid.eq(delayed(m, ending, waits, name="report", reset=True)),
            self.report.block_bytes.eq(delayed(m, self.block_bytes, waits - 3, name="block_bytes")),
            self.report.block_sum.eq(
                add16(sum_of_data, delayed(m, tag_sum, waits - 4 - join, name="tag_sum"))
            ),
            self.report.cleared_sum.eq(delayed(m, cleared_sum.sum, cleared_waits, name="cleared_sum")),
            self.report.lanes.eq(delayed(m, lanes.as_value(), waits - 3 - join, name="lanes")),
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

    def _data_sum(self, m: Module, data_sum: OnesComplementSum) -> Value:
        """The data's sum, in the cycle of the block's report.

        It came in this cycle or the one before, and holds until the next block's. Where that can come at
        once, `early` tells which it was.
        """
        if not self.width.payload_overlaps:
            return data_sum.sum
        early = Signal()
        m.d.sync += early.eq(early ^ data_sum.sum_valid ^ self.report_valid)
        return Mux(early, delayed(m, data_sum.sum, 1, name="data_sum"), data_sum.sum)
