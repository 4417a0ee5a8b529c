# SPDX-License-Identifier: BSD-2-Clause
"""A Decompression Block per lane, side by side (the paper's Fig. 10)."""

from typing import Any

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ...parts.width import BURST, Width
from .decompression_block import DecompressionBlock


class DecompressionUnit(wiring.Component):
    """The tags and vectors of a group, or two, to a burst of fp32 (the paper's Decompression Unit, Fig. 10).

    Free-running: a burst every cycle, outputs ``LATENCY`` cycles after their inputs.
    """

    LATENCY = DecompressionBlock.LATENCY

    def __init__(self, width: Width = BURST):
        self.width = width
        super().__init__(
            {
                "tags": In(2 * width.lanes),  #: The tag word, or two: lane *i* in bits 2i+1..2i.
                #: Lane *i*'s vector right-aligned in bits 32i+31..32i; bits beyond its size are ignored.
                "vectors": In(self.width.bits),
                "base": In(8),  #: Biased exponent that the 8-bit class is normalised to (B).
                "burst": Out(self.width.bits),  #: Lane *i* in bits 32i+31..32i.
                #: Lanes whose exponent would fall below 1; their values are undefined.
                "impossible": Out(width.lanes),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        for lane in range(self.width.lanes):
            m.submodules[f"block_{lane}"] = block = DecompressionBlock()
            m.d.comb += [
                block.tag.eq(self.tags.word_select(lane, 2)),
                block.vector.eq(self.vectors.word_select(lane, 32)),
                block.base.eq(self.base),
                self.burst.word_select(lane, 32).eq(block.value),
                self.impossible[lane].eq(block.impossible),
            ]
        return m
