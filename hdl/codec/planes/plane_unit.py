# SPDX-License-Identifier: BSD-2-Clause
"""Plane Unit: a lane quantiser per lane, and the bit planes of a group (wire format, section 9)."""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from inceptionn.wire import BURST_BYTES, CODE_BYTES, GROUP_LANES, LANE_BYTES, RAW_CODE

from ...parts.beat import Beat
from ...parts.joining import join_parts
from ...parts.pipeline import Pipeline
from .lane_quantiser import Z_BITS, LaneQuantiser

CODE_BITS = 4
_MOST_PLANES = RAW_CODE - 1
"""Code of a group of 14 or 15 planes, the most without a raw lane."""
_JOIN_STAGES = -(-BURST_BYTES.bit_length() // 2)
"""Base-4 digits of a group's size."""


def code_bytes(code: Value) -> Value:
    """Return the bytes of a group's data, 0..13, 15 or 32, from its code (6 bits)."""
    raw, most = code.all(), code == _MOST_PLANES
    assert CODE_BYTES == (*range(_MOST_PLANES), Z_BITS, BURST_BYTES)
    return Cat(Mux(raw, 0, code) | most, Const(0, 1), raw)


class PlaneUnit(wiring.Component):
    """Turns a burst of 8 or 16 fp32 lanes into codes and an aligned vector of 0 to 32 bytes per group.

    One burst per cycle, :attr:`latency` cycles (9 for 8 lanes, 12 for 16), no stall. ``gained`` and
    ``carries`` are ready earlier, :attr:`LaneQuantiser.LATENCY` cycles after the burst.

    Parameters
    ----------
    lanes : :class:`int`
        Lanes per burst: 8, a group, or 16, two groups.
    """

    def __init__(self, *, lanes: int = GROUP_LANES):
        self.lanes = lanes
        self.width = Beat.of_groups(lanes)
        self.latency = self.latency_of(self.width)
        super().__init__(
            {
                "burst": In(self.width.bits),  #: Lane 0 in the low bits.
                "present": In(lanes),  #: One bit per lane; low after the end of a block.
                "e0": In(8),  #: See :class:`LaneQuantiser`.
                "codes": Out(CODE_BITS * self.width.groups),  #: The groups' codes, 4 bits each.
                "size": Out(range(self.width.bytes + 1)),  #: Bytes of ``aligned``.
                "aligned": Out(self.width.bits),  #: The groups' data, back to back, zero above.
                "gained": Out(self.width.bits),  #: Per lane, see :class:`LaneQuantiser`.
                "carries": Out(lanes),  #: Per lane, see :class:`LaneQuantiser`.
            }
        )

    @staticmethod
    def latency_of(width: Beat) -> int:
        """Count the cycles from input to output."""
        return LaneQuantiser.LATENCY + 3 + (0 if width.groups == 1 else _JOIN_STAGES)

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        blocks = [LaneQuantiser() for _ in range(self.lanes)]
        for i, block in enumerate(blocks):
            m.submodules[f"lane{i}"] = block
            m.d.comb += [
                block.lane.eq(self.burst.word_select(i, 8 * LANE_BYTES)),
                block.present.eq(self.present[i]),
                block.e0.eq(self.e0),
                self.gained.word_select(i, 8 * LANE_BYTES).eq(block.gained),
                self.carries[i].eq(block.carry),
            ]
        if self.width.groups == 1:
            p = self._group(m, blocks)
            m.d.comb += [self.codes.eq(p.code), self.size.eq(p.size), self.aligned.eq(p.vector)]
            return m
        lower, upper = (
            self._group(m, blocks[at : at + GROUP_LANES], f"group{at // GROUP_LANES}_")
            for at in range(0, self.lanes, GROUP_LANES)
        )
        joined, size = join_parts(
            m, "both_", (lower.vector, upper.vector), (lower.size, upper.size), _JOIN_STAGES
        )
        both = Pipeline(m, "both_")
        both.let(codes=Cat(lower.code, upper.code))
        for _ in range(_JOIN_STAGES):
            both.stage()
        m.d.comb += [self.codes.eq(both.codes), self.size.eq(size), self.aligned.eq(joined)]
        return m

    @staticmethod
    def _group(m: Module, blocks: list[LaneQuantiser], prefix: str = "") -> Pipeline:
        """Return code, size and vector of a group, three stages after its quantised lanes."""
        p = Pipeline(m, prefix)
        # Byte j is bit j of every lane's integer.
        planes = [Cat(block.z[plane] for block in blocks) for plane in range(Z_BITS)]
        p.let(planes=Cat(planes))

        # Stage 1: which planes hold a bit. Stage 2: how many planes there are. Stage 3: the choice.
        p.stage(used=Cat(plane.any() for plane in planes), raw=Cat(block.raw for block in blocks).any())
        p.let(words=Cat(block.lossy for block in blocks))
        code = Signal(CODE_BITS, name=f"{prefix}code")
        with m.If(p.raw):
            m.d.comb += code.eq(RAW_CODE)
        for plane in reversed(range(Z_BITS)):
            with m.Elif(p.used[plane]):
                m.d.comb += code.eq(min(plane + 1, _MOST_PLANES))
        p.stage(code=code)
        raw = p.raw
        p.stage(
            size=code_bytes(p.code),
            vector=Mux(raw, p.words, p.planes),
        )
        return p
