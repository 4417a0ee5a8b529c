# SPDX-License-Identifier: BSD-2-Clause
"""Compression Unit: a Compression Block per lane and the shifter tree (paper, Fig. 9)."""

from typing import Any

from amaranth.hdl import Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from inceptionn.wire import LANE_BYTES

from ...parts.delay import delayed
from ...parts.width import BURST, Width
from .compression_block import CompressionBlock
from .shifter_tree import ShifterTree


class CompressionUnit(wiring.Component):
    """Turns a burst of 8 or 16 fp32 lanes into its tag words and an aligned vector of 0 to 4 bytes per lane.

    One burst per cycle, :attr:`latency` cycles (11 for 8 lanes, 14 for 16), no stall. ``tags`` and
    ``cleared`` leave with the vector they belong to.
    """

    def __init__(self, width: Width = BURST):
        self.width = width
        self.latency = self.latency_of(self.width)
        super().__init__(
            {
                "burst": In(self.width.bits),  #: Lane 0 in the low bits.
                "present": In(width.lanes),  #: One bit per lane; low after the end of a block.
                "e0": In(8),  #: Parameter E0 of the codec, see :class:`CompressionBlock`.
                "t": In(8),  #: Parameter T, likewise.
                "b": In(8),  #: Parameter B, likewise.
                "tags": Out(2 * width.lanes),  #: Tag words: lane *i* in bits 2i+1..2i.
                "size": Out(range(self.width.bytes + 1)),  #: Bytes of ``aligned``.
                "aligned": Out(self.width.bits),  #: The lanes' vectors, back to back from byte 0, zero above.
                #: Bits of ``burst`` that the lossy values lack; zero for absent lanes.
                "cleared": Out(self.width.bits),
            }
        )

    @staticmethod
    def latency_of(width: Width) -> int:
        """Count the cycles from input to output."""
        return CompressionBlock.LATENCY + ShifterTree.latency_of(width)

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.tree = tree = ShifterTree(self.width)
        tags = Signal(data.ArrayLayout(2, self.width.lanes))
        cleared = Signal(data.ArrayLayout(8 * LANE_BYTES, self.width.lanes))
        blocks = [CompressionBlock() for _ in range(self.width.lanes)]
        self.probes = {"tree": tree, "blocks": blocks}
        for i, block in enumerate(blocks):
            m.submodules[f"block{i}"] = block
            m.d.comb += [
                block.lane.eq(self.burst.word_select(i, 8 * LANE_BYTES)),
                block.present.eq(self.present[i]),
                block.e0.eq(self.e0),
                block.t.eq(self.t),
                block.b.eq(self.b),
                tags[i].eq(block.tag),
                cleared[i].eq(block.cleared),
                tree.tags[i].eq(block.tag),
                tree.vectors[i].eq(block.vector),
            ]
        m.d.comb += [
            self.tags.eq(delayed(m, tags.as_value(), tree.latency, name="tags")),
            self.cleared.eq(delayed(m, cleared.as_value(), tree.latency, name="cleared")),
            self.size.eq(tree.size),
            self.aligned.eq(tree.aligned),
        ]
        return m
