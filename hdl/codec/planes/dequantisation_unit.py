# SPDX-License-Identifier: BSD-2-Clause
"""A lane dequantiser per lane, side by side."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from inceptionn.wire import BF16_LANES, BURST_BYTES, GROUP_LANES, RAW_CODE

from ...parts.width import BURST, Width
from .lane_dequantiser import LaneDequantiser
from .lane_quantiser import Z_BITS
from .plane_unit import CODE_BITS


class DequantisationUnit(wiring.Component):
    """The data of a group, or two, to a burst of fp32, with ``width.bf16`` also of pairs of bf16 lanes.

    The counterpart of the paper's Decompression Unit.

    Free-running: a burst every cycle, outputs ``LATENCY`` cycles after their inputs.
    """

    LATENCY = LaneDequantiser.LATENCY

    def __init__(self, width: Width = BURST):
        self.width = width
        super().__init__(
            {
                "codes": In(CODE_BITS * self.width.groups),  #: The groups' codes, 4 bits each.
                #: As of :class:`PlaneBuffer`: byte *j* (bf16: word *j*) is plane *j*, or a raw group's words.
                "data": In(self.width.bits),
                "absent": In(width.lanes),  #: Lanes that the block does not have.
                "base": In(8),  #: E0; of bf16 lanes E0 + 128.
                "burst": Out(self.width.bits),  #: Lane *i* in bits 32i+31..32i; bf16 lane *i* in 16i+15..16i.
                "impossible": Out(width.lanes),  #: Lanes that are absent and not zero.
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        blocks = [LaneDequantiser(bf16=self.width.bf16) for _ in range(self.width.lanes)]
        self.probes = {"lanes": blocks}
        for lane, block in enumerate(blocks):
            group, place = divmod(lane, GROUP_LANES)
            data = self.data.word_select(group, 8 * BURST_BYTES)
            m.submodules[f"lane_{lane}"] = block
            z = Cat(data[8 * plane + place] for plane in range(Z_BITS))
            if self.width.bf16:
                even, odd = (
                    Cat(data[16 * plane + 2 * place + upper] for plane in range(BF16_LANES.planes))
                    for upper in (0, 1)
                )
                z = Mux(self.base[-1], odd, z)
                m.d.comb += block.even.eq(even)
            m.d.comb += [
                block.z.eq(z),
                block.word.eq(data.word_select(place, 32)),
                block.is_raw.eq(self.codes.word_select(group, CODE_BITS) == RAW_CODE),
                block.absent.eq(self.absent[lane]),
                block.e0.eq(self.base),
                self.burst.word_select(lane, 32).eq(block.value),
                self.impossible[lane].eq(block.impossible),
            ]
        return m
