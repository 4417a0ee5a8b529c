# SPDX-License-Identifier: BSD-2-Clause
"""Plane Unit: a lane quantiser per lane, and the bit planes of a group (wire format, sections 9 and 10)."""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from inceptionn.wire import BF16_LANES, BURST_BYTES, CODE_BYTES, GROUP_LANES, LANE_BYTES, RAW_CODE

from ...parts.delay import delayed
from ...parts.joining import join_parts
from ...parts.pipeline import Pipeline
from ...parts.width import BURST, Width
from .lane_quantiser import Z_BITS, LaneQuantiser

CODE_BITS = 4
_MOST_PLANES = RAW_CODE - 1
"""Code of a group of 14 or 15 planes, the most without a raw lane."""
_JOIN_STAGES = -(-BURST_BYTES.bit_length() // 2)
"""Base-4 digits of a group's size."""


def code_bytes(code: Value, bf16: Value | None = None) -> Value:
    """Return the bytes of a group's data from its code (6 bits): 0..13, 15 or 32.

    With ``bf16``, a bit, those of bf16 lanes where it is set: 0, 2..28 or 32.
    """
    raw, most = code.all(), code == _MOST_PLANES
    assert CODE_BYTES == (*range(_MOST_PLANES), Z_BITS, BURST_BYTES)
    size = Cat(Mux(raw, 0, code) | most, Const(0, 1), raw)
    if bf16 is None:
        return size
    assert BF16_LANES.code_bytes == (*range(0, 2 * RAW_CODE, 2), BURST_BYTES)
    return Mux(bf16, Cat(Const(0, 1), Mux(raw, 0, code), raw), size)


class PlaneUnit(wiring.Component):
    """Turns a burst of 8 or 16 fp32 lanes into codes and an aligned vector of 0 to 32 bytes per group.

    One burst per cycle, :attr:`latency` cycles (9 for 8 lanes, 12 for 16), no stall. ``gained`` and
    ``carries`` are ready earlier, :attr:`LaneQuantiser.LATENCY` cycles after the burst.

    With ``width.bf16``, each burst may instead have two bf16 lanes in place of each fp32 lane. The quantiser
    of the fp32 lane takes the odd one, in its upper half; a narrow quantiser beside it takes the even one and
    makes zeros of fp32 lanes. Both types have the same latency, so bursts of both may follow one another.
    """

    def __init__(self, width: Width = BURST):
        self.width = width
        self.latency = self.latency_of(self.width)
        super().__init__(
            {
                "burst": In(self.width.bits),  #: Lane 0 in the low bits.
                "present": In(width.lanes),  #: One bit per lane; low after the end of a block.
                #: See :class:`LaneQuantiser`; of bf16 lanes, two for each bit of ``present``, E0 + 128.
                "e0": In(8),
                "codes": Out(CODE_BITS * self.width.groups),  #: The groups' codes, 4 bits each.
                "size": Out(range(self.width.bytes + 1)),  #: Bytes of ``aligned``.
                "aligned": Out(self.width.bits),  #: The groups' data, back to back, zero above.
                "gained": Out(self.width.bits),  #: Per lane, see :class:`LaneQuantiser`.
                #: Per lane, see :class:`LaneQuantiser`; then per even bf16 lane.
                "carries": Out(width.lanes << width.bf16),
            }
        )

    @staticmethod
    def latency_of(width: Width) -> int:
        """Count the cycles from input to output."""
        return LaneQuantiser.LATENCY + 3 + (0 if width.groups == 1 else _JOIN_STAGES)

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        bf16, e0 = (self.e0[-1], self.e0[:-1]) if self.width.bf16 else (Const(0, 1), self.e0)
        blocks = [LaneQuantiser() for _ in range(self.width.lanes)]
        for i, block in enumerate(blocks):
            m.submodules[f"lane{i}"] = block
            lane = self.burst.word_select(i, 8 * LANE_BYTES)
            m.d.comb += [
                block.lane.eq(Cat(Mux(bf16, 0, lane[:16]), lane[16:]) if self.width.bf16 else lane),
                block.present.eq(self.present[i]),
                block.e0.eq(e0),
                self.gained.word_select(i, 8 * LANE_BYTES).eq(block.gained),
                self.carries[i].eq(block.carry),
            ]
        # The lower half of each lane, and whether it is a lane; both as of the quantisers' outputs.
        narrow = self._narrow(m) if self.width.bf16 else []
        if self.width.groups == 1:
            p = self._group(m, blocks, narrow)
            self.probes = {"lanes": blocks, "narrow": narrow, "groups": [p]}
            m.d.comb += [self.codes.eq(p.code), self.size.eq(p.size), self.aligned.eq(p.vector)]
            return m
        lower, upper = (
            self._group(m, blocks[at : at + GROUP_LANES], narrow[at : at + GROUP_LANES], prefix)
            for at, prefix in ((0, "group0_"), (GROUP_LANES, "group1_"))
        )
        joined, size, join = join_parts(
            m, "both_", (lower.vector, upper.vector), (lower.size, upper.size), _JOIN_STAGES
        )
        both = Pipeline(m, "both_")
        both.let(codes=Cat(lower.code, upper.code))
        for _ in range(_JOIN_STAGES):
            both.stage()
        m.d.comb += [self.codes.eq(both.codes), self.size.eq(size), self.aligned.eq(joined)]
        self.probes = {"lanes": blocks, "narrow": narrow, "groups": [lower, upper], "join": join}
        return m

    def _narrow(self, m: Module) -> list[LaneQuantiser]:
        """Add the quantisers of the even bf16 lanes."""
        bf16, e0 = self.e0[-1], self.e0[:-1]
        self._bf16 = delayed(m, bf16, LaneQuantiser.LATENCY, name="bf16")
        blocks = [LaneQuantiser(BF16_LANES) for _ in range(self.width.lanes)]
        for i, block in enumerate(blocks):
            m.submodules[f"narrow{i}"] = block
            gained = self.gained.word_select(i, 8 * LANE_BYTES)
            m.d.comb += [
                block.lane.eq(self.burst.word_select(2 * i, 16)),
                block.present.eq(bf16 & self.present[i]),
                block.e0.eq(e0),
                self.carries[self.width.lanes + i].eq(block.carry),
            ]
            with m.If(self._bf16):
                m.d.comb += gained[:16].eq(block.gained)
        return blocks

    def _group(
        self, m: Module, blocks: list[LaneQuantiser], narrow: list[LaneQuantiser], prefix: str = ""
    ) -> Pipeline:
        """Return code, size and vector of a group, three stages after its quantised lanes."""
        p = Pipeline(m, prefix)
        # Byte j is bit j of every lane's integer; with bf16 lanes, half of word j.
        planes = [Cat(block.z[plane] for block in blocks) for plane in range(Z_BITS)]
        even = [Cat(block.z[plane] for block in narrow) for plane in range(BF16_LANES.planes)]
        used = [Cat(planes[plane], *even[plane : plane + 1]).any() for plane in range(Z_BITS)]
        p.let(planes=Cat(planes))
        if self.width.bf16:
            p.let(even=Cat(even), bf16=self._bf16)

        # Stage 1: which planes hold a bit. Stage 2: how many planes there are. Stage 3: the choice.
        p.stage(used=Cat(used), raw=Cat(block.raw for block in (*blocks, *narrow)).any())
        p.let(words=Cat(block.lossy for block in blocks))
        if self.width.bf16:
            p.let(even_words=Cat(Cat(block.lossy, Const(0, 16)) for block in narrow))
        code = Signal(CODE_BITS, name=f"{prefix}code")
        with m.If(p.raw):
            m.d.comb += code.eq(RAW_CODE)
        for plane in reversed(range(Z_BITS)):
            with m.Elif(p.used[plane]):
                m.d.comb += code.eq(min(plane + 1, _MOST_PLANES))
        p.stage(code=code)
        raw, words, vector = p.raw, p.words, p.planes
        if self.width.bf16:
            # The one or the other has zeros in the lower half of a lane.
            words = words | p.even_words
            pairs = zip(p.even, p.planes, strict=False)
            vector = Mux(p.bf16, Cat(Cat(pair) for pair in pairs), vector)
        p.stage(
            size=code_bytes(p.code, p.bf16 if self.width.bf16 else None),
            vector=Mux(raw, words, vector),
        )
        return p
