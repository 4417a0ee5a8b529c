# SPDX-License-Identifier: BSD-2-Clause
"""The ring of received bursts, and the network that takes one group's vectors out of two of them."""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Value
from amaranth.lib.wiring import Out

from inceptionn.wire import GROUP_LANES, LANE_BYTES

from ...parts.delay import delayed
from ...parts.pipeline import Pipeline
from ...parts.width import BURST, Width
from ..ring_window import RingWindow, digit_amounts, digits_of, pick
from .tag_decoder import vector_bytes


class BurstBuffer(RingWindow):
    """Cuts the vectors of a group, or two, out of the received bursts (the paper's Burst Buffer, Fig. 10).

    One request per cycle. ``vectors`` belong to the request held :attr:`latency` cycles before: 7, with 16
    lanes 8. Its tags come with them as ``vector_tags``. The marks of a request are ``tags``, 2 bits per lane.
    """

    def __init__(self, width: Width = BURST):
        outputs = {
            #: Lane *i*'s vector right-aligned in bits 32i+31..32i, with arbitrary bits above its size.
            "vectors": Out(width.bits),
            "vector_tags": Out(2 * width.lanes),  #: Their tags: lane *i* in bits 2i+1..2i.
        }
        super().__init__(width, ("tags", 2 * width.lanes), outputs)

    @classmethod
    def latency_of(cls, width: Width) -> int:
        """Count the cycles from a held request to its vectors: the window, and the lanes' own shifts."""
        return cls.window_latency(width) + len(digits_of(width.place_bits))

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        amount, choices, tags_1 = self._window(m)
        aligned = pick(m, amount, choices, "aligned")

        # Meanwhile the offsets; then each lane moves its vector down, a digit per stage as well.
        shift = digits_of(self.width.place_bits)
        for lane, offset in enumerate(self._lane_offsets(m, tags_1)):
            farthest = LANE_BYTES * lane
            amounts = digit_amounts(m, offset, shift, f"offset_{{}}_{lane}")
            vector: Value = aligned
            for (low, high), amount, name in zip(shift, amounts, ("near", "nearer", "vector"), strict=True):
                step, size = 1 << low, LANE_BYTES + (1 << low) - 1
                reach = min(farthest, (1 << high) - 1) // step
                choices = [vector[8 * step * i : 8 * (step * i + size)] for i in range(reach + 1)]
                vector = pick(m, amount, choices, f"{name}_{lane}")
            m.d.comb += self.vectors.word_select(lane, 32).eq(vector)
        m.d.comb += self.vector_tags.eq(delayed(m, tags_1, self.latency - 1, name="tags_vector"))
        return m

    def _lane_offsets(self, m: Module, tags: Value) -> list[Value]:
        """Return the first byte of each lane within one or two groups, 3 or 4 cycles after ``tags``."""
        if self.width.groups == 1:
            return self._group_offsets(m, tags)
        lower, upper = tags[: 2 * GROUP_LANES], tags[2 * GROUP_LANES :]
        sizes = [vector_bytes(lower.word_select(lane, 2)) for lane in range(GROUP_LANES)]
        for level in range(3):
            sums = [sizes[2 * i] + sizes[2 * i + 1] for i in range(len(sizes) // 2)]
            sizes = [delayed(m, total, 1, name=f"size_{level}_{i}") for i, total in enumerate(sums)]
        offsets = [
            *self._group_offsets(m, lower, "lower_"),
            *(offset + sizes[0] for offset in self._group_offsets(m, upper, "upper_")),
        ]
        return [
            delayed(m, Cat(offset, Const(0, 1))[:6], 1, name=f"place_{i}") for i, offset in enumerate(offsets)
        ]

    @staticmethod
    def _group_offsets(m: Module, tags: Value, prefix: str = "") -> list[Value]:
        """Return the first byte of each lane within its group, three cycles after ``tags``: a prefix sum."""

        def size(tags: Value, lane: int) -> Value:
            return vector_bytes(tags.word_select(lane, 2))

        p = Pipeline(m, prefix)
        p.let(tags=tags)
        p.stage(
            two=(size(tags, 0) + size(tags, 1))[:4],
            next_two=(size(tags, 2) + size(tags, 3))[:4],
            upper_two=(size(tags, 4) + size(tags, 5))[:4],
        )
        p.stage(
            three=(p.two + size(p.tags, 2))[:4],
            half=(p.two + p.next_two)[:5],
            upper_three=(p.upper_two + size(p.tags, 6))[:4],
        )
        offsets = [
            Cat(size(p.tags, 0), Const(0, 2)),
            Cat(p.two, Const(0, 1)),
            Cat(p.three, Const(0, 1)),
            p.half,
            (p.half + size(p.tags, 4))[:5],
            (p.half + p.upper_two)[:5],
            (p.half + p.upper_three)[:5],
        ]
        p.stage(offsets=Cat(*offsets))
        return [Const(0, 5), *(p.offsets.word_select(i, 5) for i in range(len(offsets)))]
