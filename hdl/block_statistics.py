# SPDX-License-Identifier: BSD-2-Clause
"""What the engine must know of a block before it decides on the frame: size, checksums, classes."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from inceptionn.hdl.alignment_unit import AlignmentUnit
from inceptionn.hdl.checksum import OnesComplementSum, add16
from inceptionn.hdl.delay import delayed
from inceptionn.wire import BURST_BYTES, LANES, Tag


class Statistics(data.Struct):
    """A finished block in numbers. Sums are of little-endian 16-bit words, modulo 65535."""

    block_bytes: 14  # tag plane and data
    block_sum: 16  # of the block's bytes
    cleared_sum: 16  # of the bits that the lossy payload lacks: original minus lossy
    lanes: data.ArrayLayout(12, 4)  # by tag; absent lanes are not counted


class BlockStatistics(wiring.Component):
    """Sums and counts over one block, reported :attr:`LATENCY` cycles after its last group.

    Blocks may follow each other with one idle cycle between them.

    Members
    -------
    valid, last : :py:`In(1)`
        A group from the Compression Unit; the block's last.
    tags : :py:`In(16)`
    present : :py:`In(8)`
        Which lanes of the group exist.
    cleared : :py:`In(256)`
    block_bytes : :py:`In(14)`
        Size of the block, three cycles after ``last``.
    beat_valid, beat, done
        The Alignment Unit's output for the same groups.
    report : :py:`Out(Statistics)`
    report_valid : :py:`Out(1)`
    """

    # The data's sum comes last: a block's last beat leaves the aligner LATENCY or LATENCY + 1 cycles after
    # its last group, and the sum holds until the next block's, two cycles later at the earliest.
    LATENCY = AlignmentUnit.LATENCY + 1 + OnesComplementSum.latency()

    valid: In(1)
    last: In(1)
    tags: In(2 * LANES)
    present: In(LANES)
    cleared: In(8 * BURST_BYTES)
    block_bytes: In(14)
    beat_valid: In(1)
    beat: In(8 * BURST_BYTES)
    done: In(1)
    report: Out(Statistics)
    report_valid: Out(1)

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.cleared_sum = cleared_sum = OnesComplementSum()
        m.submodules.data_sum = data_sum = OnesComplementSum()
        m.d.comb += [
            cleared_sum.valid.eq(self.valid),
            cleared_sum.last.eq(self.valid & self.last),
            cleared_sum.beat.eq(self.cleared),
            data_sum.valid.eq(self.beat_valid),
            data_sum.last.eq(self.done),
            data_sum.beat.eq(self.beat),
        ]

        # Tag words: 288 of them fit 25 bits. A register in front, since the adder may lie far from the tags.
        ending = self.valid & self.last
        tag1, ending1 = Signal(2 * LANES, reset_less=True), Signal()
        m.d.sync += [tag1.eq(Mux(self.valid, self.tags, 0)), ending1.eq(ending)]
        tag_total = Signal(25)
        tag_finished, tag_folded = Signal(25, reset_less=True), Signal(17, reset_less=True)
        tag_sum = Signal(16, reset_less=True)
        accumulated = (tag_total + tag1)[:25]
        m.d.sync += [
            tag_total.eq(Mux(ending1, 0, accumulated)),
            tag_finished.eq(accumulated),
            tag_folded.eq(tag_finished[:16] + tag_finished[16:]),
            tag_sum.eq(tag_folded[:16] + tag_folded[16]),
        ]

        # Lanes per class: which they are, a population count per group, then a sum.
        counted = Signal(data.ArrayLayout(12, 4))
        ending2 = delayed(m, ending1, 1, name="ending", reset=True)
        lanes = Signal(data.ArrayLayout(12, 4), reset_less=True)
        for tag in Tag:
            hits = Signal(LANES, name=f"hits_{tag.name.lower()}")
            for i in range(LANES):
                m.d.sync += hits[i].eq(self.valid & self.present[i] & (self.tags.word_select(i, 2) == tag))
            group = Signal(4, name=f"group_{tag.name.lower()}")
            m.d.sync += group.eq(sum(hits[1:], hits[0]))
            total = (counted[tag] + group)[:12]
            m.d.sync += [counted[tag].eq(Mux(ending2, 0, total)), lanes[tag].eq(total)]

        # Everything waits for the data's sum.
        waits = self.LATENCY
        m.d.comb += [
            self.report_valid.eq(delayed(m, ending, waits, name="report", reset=True)),
            self.report.block_bytes.eq(delayed(m, self.block_bytes, waits - 3, name="block_bytes")),
            self.report.block_sum.eq(add16(data_sum.sum, delayed(m, tag_sum, waits - 4, name="tag_sum"))),
            self.report.cleared_sum.eq(
                delayed(m, cleared_sum.sum, waits - OnesComplementSum.latency(), name="cleared_sum")
            ),
            self.report.lanes.eq(delayed(m, lanes.as_value(), waits - 3, name="lanes")),
        ]
        return m
