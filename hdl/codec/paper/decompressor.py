# SPDX-License-Identifier: BSD-2-Clause
"""The decompressor of the paper's Fig. 10: blocks in, bursts of fp32 out."""

from typing import Any

from amaranth.hdl import Module

from inceptionn.wire import GROUP_LANES

from ...parts.pipeline import Pipeline
from .. import decompressor
from .burst_buffer import BurstBuffer
from .decompression_unit import DecompressionUnit
from .tag_decoder import TagDecoder


class Decompressor(decompressor.Decompressor):
    """Blocks of tag words and vectors to fp32 bursts (paper, Fig. 10, with the tag table in front).

    A block is malformed, too, if it holds a vector whose exponent would fall below 1, or tags an absent lane
    of its last group. Latency: 25 cycles from a block's first beat, with 16 lanes 27. A beat's ``base`` is
    B, the exponent that the 8-bit class is normalised to.

    Parameters and members are those of the base.
    """

    DECODER = TagDecoder
    BUFFER = BurstBuffer
    UNIT = DecompressionUnit
    WORD_LANES = GROUP_LANES

    def _decode(self, m: Module, p: Pipeline, buffer: Any, unit: Any) -> None:
        p.stage()
        m.d.comb += [
            unit.tags.eq(buffer.vector_tags),
            unit.vectors.eq(buffer.vectors),
            unit.base.eq(p.base),
        ]
