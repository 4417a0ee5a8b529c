# SPDX-License-Identifier: BSD-2-Clause
"""The serial decompressor of the paper's codec."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value

from inceptionn.wire import GROUP_LANES

from ...codec.paper.decompression_block import DecompressionBlock
from ...parts.pipeline import Pipeline
from .. import decompressor


class Decompressor(decompressor.Decompressor):
    """Restores an fp32 lane a slot (wire format, section 1).

    ::

        slot       0 1 2 3 4 5 6 7 8 9 .
        address    t   w 0 1 2 3 4 5 6 7   the tags, the word with the first vector, and each lane's next word
        arrives        t   w 0 1 2 3 4 5 6 7
        words                      0 1 2 3 4 5 6 7

    A vector lies in two words at most. The second arrives with its lane; the first is that of the lane
    before, or its second. So one loop remains, the tag's size added to the place, 14 bits.
    """

    @property
    def period(self) -> int:
        return self.WORD_LATENCY + 1 + GROUP_LANES

    def _decode(self, m: Module, runs: Value, table: Value) -> Value:
        slot, place, last = self._slot, self._place, self._last
        begins = self.WORD_LATENCY + 1
        tags = Signal(2 * GROUP_LANES, reset_less=True)
        tag = tags[:2]
        takes = slot >= begins
        with m.If(slot == self.WORD_LATENCY):
            m.d.sync += tags.eq(table)
        with m.If(takes):
            m.d.sync += [tags.eq(tags >> 2), place.eq(place + Mux(tag.all(), 4, tag))]
        held = Signal(reset_less=True)  # lowest bit of the last place's word
        m.d.sync += held.eq(place[2])

        p = Pipeline(m, control={"takes", "present", "ends"})
        number = slot - begins
        p.let(
            takes=takes,
            present=takes & (number < self._left),
            ends=last & (slot == self.period - 1),
            moved=(slot == begins) | (place[2] != held),
            shift=place[:2],
            tag=tag,
        )
        p.until(self.WORD_LATENCY)
        before = Signal(32, reset_less=True)  # the word that arrived last
        kept = Signal(32, reset_less=True)
        lower = Mux(p.moved, before, kept)
        m.d.sync += [before.eq(self.word), kept.eq(lower)]
        self.probes |= {
            "tags": tags, "place": place, "lanes": p, "before": before, "lower": lower, "kept": kept,
        }  # fmt: skip
        p.stage(vector=(Cat(lower, self.word) >> (p.shift << 3))[:32])
        m.submodules.block = block = DecompressionBlock()
        absent = ~p.present & p.takes & (p.tag != 0)
        m.d.comb += [block.tag.eq(p.tag), block.vector.eq(p.vector), block.base.eq(self.base)]
        p.let(absent=absent)
        p.until(self.WORD_LATENCY + 1 + DecompressionBlock.LATENCY)
        wrong = p.absent | (p.takes & block.impossible) | (p.ends & (place != self.length + 2))
        with m.If(wrong):
            m.d.sync += self.malformed.eq(1)
        m.d.comb += [self.words.valid.eq(p.present), self.words.payload.eq(block.value)]
        m.d.sync += self.done.eq(p.ends)
        return place[2:] + takes
