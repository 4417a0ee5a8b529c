# SPDX-License-Identifier: BSD-2-Clause
"""Compression Unit: eight Compression Blocks and the shifter tree (paper, Fig. 9)."""

from typing import Any

from amaranth.hdl import Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from inceptionn.hdl.compression_block import CompressionBlock
from inceptionn.hdl.delay import delayed
from inceptionn.hdl.shifter_tree import ShifterTree
from inceptionn.wire import LANE_BYTES, LANES


class CompressionUnit(wiring.Component):
    """Turns a burst of eight fp32 lanes into a 16-bit tag word and an aligned vector of 0 to 32 bytes.

    One burst per cycle, :attr:`LATENCY` cycles, no stall. ``tags`` and ``cleared`` leave with the
    vector they belong to.

    Members
    -------
    burst : :py:`In(256)`
        Eight lanes, lane 0 in the low bits.
    present : :py:`In(8)`
        One bit per lane; low behind the end of a block.
    e0, t, b : :py:`In(8)`
        Codec parameters, see :class:`CompressionBlock`.
    tags : :py:`Out(16)`
        Tag word: lane *i* in bits 2i+1..2i.
    size : :py:`Out(6)`
        Bytes of ``aligned``.
    aligned : :py:`Out(256)`
    cleared : :py:`Out(256)`
        Bits of ``burst`` that the lossy values lack; zero for absent lanes.
    """

    LATENCY = CompressionBlock.LATENCY + ShifterTree.LATENCY

    burst: In(8 * LANE_BYTES * LANES)
    present: In(LANES)
    e0: In(8)
    t: In(8)
    b: In(8)
    tags: Out(2 * LANES)
    size: Out(6)
    aligned: Out(8 * LANE_BYTES * LANES)
    cleared: Out(8 * LANE_BYTES * LANES)

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.tree = tree = ShifterTree()
        tags = Signal(data.ArrayLayout(2, LANES))
        cleared = Signal(data.ArrayLayout(8 * LANE_BYTES, LANES))
        for i in range(LANES):
            m.submodules[f"block{i}"] = block = CompressionBlock()
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
            self.tags.eq(delayed(m, tags.as_value(), tree.LATENCY, name="tags")),
            self.cleared.eq(delayed(m, cleared.as_value(), tree.LATENCY, name="cleared")),
            self.size.eq(tree.size),
            self.aligned.eq(tree.aligned),
        ]
        return m
