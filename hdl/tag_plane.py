# SPDX-License-Identifier: BSD-2-Clause
"""The tag plane: a block's tag words, collected into beats (wire format, section 2)."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from inceptionn.wire import BURST_BYTES, LANES, TAG_WORD_BYTES

_WORDS = BURST_BYTES // TAG_WORD_BYTES


class TagPlane(wiring.Component):
    """Collects 16 tag words into a 32-byte beat, the first of a block at a given place in its beat.

    One word per cycle; a beat leaves :attr:`LATENCY` cycles after its last word.

    Members
    -------
    valid, first, last : :py:`In(1)`
    place : :py:`In(4)`
        Word of the beat, 0..15, in which the block's first tag word belongs; read with ``first``.
    tags : :py:`In(16)`
    beat : :py:`Out(256)`
        Zero where the block has no tag word.
    beat_valid : :py:`Out(1)`
    """

    LATENCY = 2

    valid: In(1)
    first: In(1)
    last: In(1)
    place: In(4)
    tags: In(2 * LANES)
    beat: Out(8 * BURST_BYTES)
    beat_valid: Out(1)

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        # Stage 1: where the word goes, one-hot; `fresh` empties the rest of the beat.
        following = Signal(4)
        place = Signal(4)
        tags1 = Signal(2 * LANES, reset_less=True)
        select1 = Signal(_WORDS)
        fresh1, full1 = Signal(reset_less=True), Signal()
        m.d.comb += place.eq(Mux(self.first, self.place, following))
        with m.If(self.valid):
            m.d.sync += following.eq(place + 1)
        m.d.sync += [
            tags1.eq(self.tags),
            select1.eq(Mux(self.valid, 1 << place, 0)),
            fresh1.eq(self.valid & (self.first | (place == 0))),
            full1.eq(self.valid & (self.last | place.all())),
            self.beat_valid.eq(full1),
        ]
        # Stage 2: the beat.
        for i in range(_WORDS):
            word = self.beat.word_select(i, 16)
            m.d.sync += word.eq(Mux(select1[i], tags1, Mux(fresh1, 0, word)))
        return m
