# SPDX-License-Identifier: BSD-2-Clause
"""The ring of received beats, and the rotation that turns a group's data into its bit planes."""

from collections.abc import Sequence
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib.wiring import Out

from inceptionn.wire import BF16_LANES, BURST_BYTES, RAW_CODE

from ...parts.pipeline import Pipeline
from ...parts.width import BURST, Width
from ..ring_window import RingWindow, pick
from .lane_quantiser import Z_BITS
from .plane_unit import CODE_BITS, code_bytes

_UPPER_STAGES = 2
"""Stages that move the upper of two groups down, after the rotation: by 0 to 12 bytes, by 0 to 3."""


class PlaneBuffer(RingWindow):
    """Cuts the data of a group, or two, out of the received beats (the counterpart of the Burst Buffer).

    Byte *j* of a group is always plane *j*, so a group needs no shifter of its own; only the upper of two is
    moved by the size of the lower. One request per cycle. ``data`` belong to the request held :attr:`latency`
    cycles before: 4, with 16 lanes 7. Its codes come with them as ``data_codes``. The marks of a request
    are ``codes``, 4 bits per group.
    """

    def __init__(self, width: Width = BURST):
        groups = width.groups
        codes = CODE_BITS * groups
        self._most = BF16_LANES.code_bytes[RAW_CODE - 1] if width.bf16 else Z_BITS
        outputs = {
            #: Each group's data in 32 bytes. Those from its size to byte 14 are zero, with bf16 to byte
            #: 27; the others are arbitrary.
            "data": Out(8 * BURST_BYTES * groups),
            "data_codes": Out(codes),  #: Their codes, 4 bits per group.
        }
        super().__init__(width, ("codes", codes + width.bf16), outputs)

    @classmethod
    def latency_of(cls, width: Width) -> int:
        """Count the cycles from a held request to its data."""
        return cls.window_latency(width) + (0 if width.groups == 1 else _UPPER_STAGES)

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        # Stages count from the held request: its codes are there in stage 1, its data in stage `rotated`.
        (amount, *_), choices, codes = self._window(m)
        rotated = self.window_latency(self.width)
        p = Pipeline(m)
        p.until(1)
        groups = CODE_BITS * self.width.groups
        p.let(codes=codes[:groups])
        if self.width.bf16:
            p.let(bf16=codes[-1])
        p.until(rotated - 2)
        p.let(size=self._size(p, p.codes[:CODE_BITS]))
        p.stage(planes=self._planes(p.size))
        lower = self._pick_planes(
            m, amount, [choice[: 8 * BURST_BYTES] for choice in choices], p.planes, "lower"
        )
        if self.width.groups == 1:
            p.stage()
            m.d.comb += [self.data.eq(lower), self.data_codes.eq(p.codes)]
            return m

        # The upper group begins after the lower one's 0 to 15 or 32 bytes, of bf16 lanes up to 28. With 16
        # lanes the rotation's last digit has one bit; beside it there is place for the 16s and 32s.
        step = BURST_BYTES // 2 if self.width.bf16 else BURST_BYTES
        far = [
            choice[8 * start : 8 * (start + 47)]
            for start in range(0, BURST_BYTES + 1, step)
            for choice in choices
        ]
        moved = pick(m, Cat(amount, p.size[4:] if self.width.bf16 else p.size[-1]), far, "upper_far")
        p.stage()
        p.let(lower=lower)
        moved = pick(m, p.size[2:4], [moved[32 * i : 32 * i + 8 * 35] for i in range(4)], "upper_near")
        p.stage(planes=self._planes(self._size(p, p.codes[CODE_BITS:])))
        near = [moved[8 * i : 8 * (i + BURST_BYTES)] for i in range(4)]
        upper = self._pick_planes(m, p.size[:2], near, p.planes, "upper")
        p.stage()
        m.d.comb += [self.data.eq(Cat(p.lower, upper)), self.data_codes.eq(p.codes)]
        return m

    def _size(self, p: Pipeline, code: Value) -> Value:
        """Return the bytes of a group's data."""
        return code_bytes(code, p.bf16 if self.width.bf16 else None)

    def _planes(self, size: Value) -> Value:
        """Return one bit per byte of planes: a group of ``size`` bytes has it, or is raw."""
        return Cat(size > byte for byte in range(self._most))

    def _pick_planes(
        self, m: Module, select: Value, choices: Sequence[Value], planes: Value, name: str
    ) -> Value:
        """Select as :func:`pick`, with the planes that the group lacks cleared."""
        chosen = Signal(len(choices[0]), name=f"{name}_chosen")
        with m.Switch(select):
            for index, choice in enumerate(choices):
                with m.Case(index):
                    m.d.comb += chosen.eq(choice)
        kept = Signal.like(chosen, name=name, reset_less=True)
        for byte in range(len(chosen) // 8):
            value = chosen.word_select(byte, 8)
            if byte < self._most:
                value = Mux(planes[byte], value, 0)
            m.d.sync += kept.word_select(byte, 8).eq(value)
        return kept
