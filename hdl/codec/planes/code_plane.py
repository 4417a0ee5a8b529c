# SPDX-License-Identifier: BSD-2-Clause
"""The code plane: the codes of a block's groups, collected into beats (wire format, section 9)."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from inceptionn.wire import CODE_WORD_GROUPS, GROUP_LANES

from ...parts.beat import Beat
from ..word_plane import collect_words
from .plane_unit import CODE_BITS


class CodePlane(wiring.Component):
    """Collects codes into 16-bit words, and these into beats, the first of a block at a given place.

    One code per cycle with 8 lanes, two with 16. A beat leaves :attr:`LATENCY` cycles after the code that
    completes it. A cycle's codes share a byte, and so a beat; blocks may follow one another without a pause.

    Parameters
    ----------
    lanes : :class:`int`
        8: one code per cycle, beats of 32 bytes. 16: two codes, 64 bytes.

    Members
    -------
    valid, first, last : :py:`In(1)`
    place : :py:`In(range(lanes * 2))`
        Word of the beat in which the block's first code belongs; read with ``first``.
    codes : :py:`In(lanes // 2)`
        The code of a group that does not exist is 0.
    begins : :py:`Out(1)`
        Combinational: these codes are the first of a word.
    word : :py:`Out(16)`
    word_valid, word_last : :py:`Out(1)`
        A word, and the block's last one, in the cycle after the code that completes it.
    beat : :py:`Out(32 * lanes)`
        Zero where the block has no code.
    beat_valid : :py:`Out(1)`
    """

    LATENCY = 3

    def __init__(self, *, lanes: int = GROUP_LANES):
        self.lanes = lanes
        self.width = Beat.of_groups(lanes)
        super().__init__(
            {
                "valid": In(1),
                "first": In(1),
                "last": In(1),
                "place": In(range(self.width.words)),
                "codes": In(CODE_BITS * self.width.groups),
                "begins": Out(1),
                "word": Out(16),
                "word_valid": Out(1),
                "word_last": Out(1),
                "beat": Out(self.width.bits),
                "beat_valid": Out(1),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        # The codes' place in their word: 1 of 4, with 16 lanes 1 of 2.
        following = Signal(range(CODE_WORD_GROUPS // self.width.groups))
        index = Signal.like(following)
        first_word = Signal()
        place = Signal.like(self.place, reset_less=True)
        m.d.comb += [index.eq(Mux(self.first, 0, following)), self.begins.eq(index == 0)]
        placed = Cat(Mux(index == at, self.codes, 0) for at in range(1 << len(index)))
        with m.If(self.valid):
            m.d.sync += [
                following.eq(index + 1),
                self.word.eq(Mux(self.begins, 0, self.word) | placed),
            ]
        with m.If(self.valid & self.begins):
            m.d.sync += first_word.eq(self.first)
        with m.If(self.valid & self.first):
            m.d.sync += place.eq(self.place)
        m.d.sync += [
            self.word_valid.eq(self.valid & (self.last | index.all())),
            self.word_last.eq(self.valid & self.last),
        ]
        collect_words(
            m,
            self.word,
            self.beat,
            self.beat_valid,
            valid=self.word_valid,
            first=first_word,
            last=self.word_last,
            place=place,
        )
        return m
