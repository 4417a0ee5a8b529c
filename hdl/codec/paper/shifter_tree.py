# SPDX-License-Identifier: BSD-2-Clause
"""The binary shifter tree that closes the gaps between a burst's vectors (paper, Fig. 9)."""

from typing import Any

from amaranth.hdl import Cat, Module, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from inceptionn.wire import LANE_BYTES, TAG_BYTES

from ...parts.joining import join_parts
from ...parts.pipeline import Pipeline
from ...parts.width import BURST, Width


def bytes_of_tag(tag: Value) -> Value:
    """Return the bytes of a vector, 0, 1, 2 or 4, from its tag (3 bits): ``2**tag >> 1``."""
    return Cat(tag == TAG_BYTES.index(1), tag == TAG_BYTES.index(2), tag == TAG_BYTES.index(4))


def _join_stages(level: int) -> int:
    """Count the stages of a join at this level: the base-4 digits of its lower half's size.

    The size is 0..``4 << level``. A single vector's size has at most one bit set, which selects like one
    digit.
    """
    return (level + 4) // 2 if level else 1


class ShifterTree(wiring.Component):
    """Packs 8 or 16 vectors of 0, 1, 2 or 4 bytes into one aligned vector of 0 to 32 or 64 bytes.

    Each level joins neighbours: the upper one moves down onto the end of the lower one. It shifts one base-4
    digit of the lower half's size per stage (1, 2, 3 and 3 stages), so no stage is deeper than a 4:1
    multiplexer and an OR. One burst per cycle; latency :attr:`latency` cycles, 6 with 8 vectors and 9 with
    16.
    """

    def __init__(self, width: Width = BURST):
        self.width = width
        self.latency = self.latency_of(self.width)
        super().__init__(
            {
                "tags": In(data.ArrayLayout(2, width.lanes)),  #: The vectors' classes: their sizes.
                #: Right-aligned, zero above their size.
                "vectors": In(data.ArrayLayout(8 * LANE_BYTES, width.lanes)),
                "size": Out(range(self.width.bytes + 1)),  #: Bytes of ``aligned``.
                #: The vectors in lane order, back to back from byte 0, zero above.
                "aligned": Out(self.width.bits),
            }
        )

    @staticmethod
    def latency_of(width: Width) -> int:
        """Count the cycles from input to output."""
        return sum(_join_stages(level) for level in range(exact_log2(width.lanes)))

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        parts = [self.vectors[i] for i in range(self.width.lanes)]
        sizes = [bytes_of_tag(self.tags[i]) for i in range(self.width.lanes)]
        levels: list[list[Pipeline]] = []
        while len(parts) > 1:
            level = len(levels)
            joins = [
                join_parts(
                    m,
                    f"level{level}_{pair}_",
                    parts[at : at + 2],
                    sizes[at : at + 2],
                    _join_stages(level),
                )
                for pair, at in enumerate(range(0, len(parts), 2))
            ]
            parts, sizes = [vector for vector, _, _ in joins], [size for _, size, _ in joins]
            levels.append([stages for _, _, stages in joins])
        self.probes = {"levels": levels}
        m.d.comb += [self.aligned.eq(parts[0]), self.size.eq(sizes[0])]
        return m
