# SPDX-License-Identifier: BSD-2-Clause
"""Eight Decompression Blocks side by side (the paper's Fig. 10)."""

from typing import Any

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from inceptionn.hdl.decompression_block import DecompressionBlock
from inceptionn.wire import LANES


class DecompressionUnit(wiring.Component):
    """The tags and vectors of one group to one burst of fp32 (the paper's Decompression Unit, Fig. 10).

    Free-running: a group every cycle, outputs ``LATENCY`` cycles after their inputs.

    Members
    -------
    tags : :py:`In(16)`
        The tag word: lane *i* in bits 2i+1..2i.
    vectors : :py:`In(256)`
        Lane *i*'s vector right-aligned in bits 32i+31..32i; bits beyond its size are ignored.
    base : :py:`In(8)`
        Biased exponent that the 8-bit class is normalised to (B).
    burst : :py:`Out(256)`
        Lane *i* in bits 32i+31..32i.
    impossible : :py:`Out(8)`
        Lanes whose exponent would fall below 1; their values are undefined.
    """

    LATENCY = DecompressionBlock.LATENCY

    tags: In(2 * LANES)
    vectors: In(32 * LANES)
    base: In(8)
    burst: Out(32 * LANES)
    impossible: Out(LANES)

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        for lane in range(LANES):
            m.submodules[f"block_{lane}"] = block = DecompressionBlock()
            m.d.comb += [
                block.tag.eq(self.tags.word_select(lane, 2)),
                block.vector.eq(self.vectors.word_select(lane, 32)),
                block.base.eq(self.base),
                self.burst.word_select(lane, 32).eq(block.value),
                self.impossible[lane].eq(block.impossible),
            ]
        return m
