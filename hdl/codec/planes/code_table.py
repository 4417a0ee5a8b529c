# SPDX-License-Identifier: BSD-2-Clause
"""The code table: the codes of a block's groups, collected into beats (wire format, section 9)."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from inceptionn.wire import CODE_WORD_GROUPS

from ...parts.width import BURST, Width
from ..word_table import collect_words, table_words
from .plane_unit import CODE_BITS


def burst_codes(width: Width = BURST) -> data.StructLayout:
    """Return the layout of a burst's codes, and its place in its block."""
    return data.StructLayout(
        {
            "first": 1,
            "last": 1,
            # Word of the beat in which the block's first code belongs; valid only with `first`.
            "place": range(width.words),
            # The code of a group that does not exist is 0.
            "codes": CODE_BITS * width.groups,
        }
    )


class CodeTable(wiring.Component):
    """Collects codes into 16-bit words, and these into beats, the first of a block at a given place.

    One code per cycle with 8 lanes, two with 16. A beat leaves :attr:`LATENCY` cycles after the code that
    completes it. The two codes of a cycle share a byte, so they never lie in two beats. Blocks may follow one
    another without an idle cycle.
    """

    LATENCY = 3

    def __init__(self, width: Width = BURST):
        self.width = width
        super().__init__(
            {
                "codes": In(stream.Signature(burst_codes(width), always_ready=True)),  #: A burst's codes.
                "begins": Out(1),  #: Combinational: these codes are the first of a word.
                #: One cycle after the code that completes the word. ``last`` is low while ``valid`` is low.
                "words": Out(stream.Signature(table_words(width), always_ready=True)),
                #: Zero where the block has no code.
                "beats": Out(stream.Signature(self.width.bits, always_ready=True)),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        valid, burst = self.codes.valid, self.codes.payload
        # The codes' place in their word: 1 of 4, with 16 lanes 1 of 2.
        following = Signal(range(CODE_WORD_GROUPS // self.width.groups))
        index = Signal.like(following)
        word = Signal(16)
        first_word = Signal()
        last_word = Signal()
        place = Signal.like(burst.place, reset_less=True)
        m.d.comb += [index.eq(Mux(burst.first, 0, following)), self.begins.eq(index == 0)]
        placed = Cat(Mux(index == at, burst.codes, 0) for at in range(1 << len(index)))
        with m.If(valid):
            m.d.sync += [
                following.eq(index + 1),
                word.eq(Mux(self.begins, 0, word) | placed),
            ]
        with m.If(valid & self.begins):
            m.d.sync += first_word.eq(burst.first)
        with m.If(valid & burst.first):
            m.d.sync += place.eq(burst.place)
        m.d.sync += [
            self.words.valid.eq(valid & (burst.last | index.all())),
            last_word.eq(valid & burst.last),
        ]
        m.d.comb += [
            self.words.payload.first.eq(first_word),
            self.words.payload.last.eq(last_word),
            self.words.payload.place.eq(place),
            self.words.payload.words.eq(word),
        ]
        collect_words(m, self.words, self.beats)
        return m
