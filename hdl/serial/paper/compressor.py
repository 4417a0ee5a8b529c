# SPDX-License-Identifier: BSD-2-Clause
"""The serial compressor of the paper's codec."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal

from inceptionn.wire import GROUP_LANES, Tag

from ...codec.paper.compression_block import CompressionBlock
from ...parts.pipeline import Pipeline
from .. import compressor
from ..compressor import Encoded


class Compressor(compressor.Compressor):
    """Compresses an fp32 lane a slot (wire format, section 1); the group's tags leave in the ninth."""

    def _encode(self, m: Module, p: Pipeline) -> Encoded:
        m.submodules.block = block = CompressionBlock()
        m.d.comb += [
            block.lane.eq(self.word),
            block.present.eq(p.present),
            block.e0.eq(self.parameters.e0),
            block.t.eq(self.parameters.t),
            block.b.eq(self.parameters.b),
        ]
        p.until(self.WORD_LATENCY + CompressionBlock.LATENCY)
        sends, present, tag = p.sends, p.present, block.tag
        tags = Signal(2 * GROUP_LANES, reset_less=True)  # lane 0 lowest after eight slots
        with m.If(sends):
            m.d.sync += tags.eq(Cat(tags[2:], tag))
        for number in Tag:
            count = self.statistics.counts[number]
            with m.If(self.start):
                m.d.sync += count.eq(0)
            with m.Elif(present & (tag == number)):
                m.d.sync += count.eq(count + 1)
        m.d.comb += [
            self._cleared.valid.eq(sends),
            self._cleared.word.eq(block.cleared),
            self.statistics.cleared_sum.eq(self._cleared.sum),
        ]
        size = Mux(tag.all(), 4, tag)  # Tag.BITS8: 1, Tag.BITS16: 2
        return Encoded(block.vector, size, tags, Const(1, 1))
