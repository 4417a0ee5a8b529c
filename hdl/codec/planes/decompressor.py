# SPDX-License-Identifier: BSD-2-Clause
"""The decompressor of the planes codec: blocks in, bursts of fp32 or bf16 lanes out."""

from typing import Any

from amaranth.hdl import Cat, Module

from inceptionn.wire import CODE_WORD_GROUPS, GROUP_LANES

from ...parts.pipeline import Pipeline
from .. import decompressor
from .code_decoder import CodeDecoder
from .dequantisation_unit import DequantisationUnit
from .plane_buffer import PlaneBuffer


class Decompressor(decompressor.Decompressor):
    """Blocks of codes and bit planes to bursts of fp32, with ``width.bf16`` also of bf16 (sections 9 and 10).

    A block is malformed, too, if a code after its last group or an absent lane of that group is not zero.
    Latency: 23 cycles from a block's first beat, with 16 lanes 27. A beat's ``base`` is E0, 113 to 126;
    of a block with bf16 lanes, two in place of each fp32 lane, E0 + 128.

    Parameters and members are those of the base.
    """

    DECODER = CodeDecoder
    BUFFER = PlaneBuffer
    UNIT = DequantisationUnit
    WORD_LANES = CODE_WORD_GROUPS * GROUP_LANES

    def _decode(self, m: Module, p: Pipeline, buffer: Any, unit: Any) -> None:
        p.stage(absent=Cat(p.last & (p.more_lanes < lane) for lane in range(self.width.lanes)))
        m.d.comb += [
            unit.codes.eq(buffer.data_codes),
            unit.data.eq(buffer.data),
            unit.absent.eq(p.absent),
            unit.base.eq(p.base),
        ]
