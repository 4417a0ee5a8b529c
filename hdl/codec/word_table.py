# SPDX-License-Identifier: BSD-2-Clause
"""The table of 16-bit words at the head of a block, collected into beats."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data

from ..parts.pipeline import Pipeline
from ..parts.width import BURST, Width


def table_words(width: Width = BURST, count: int = 1) -> data.StructLayout:
    """Return the layout of one word of a block's table, or two."""
    return data.StructLayout(
        {
            "first": 1,
            "last": 1,
            # Only of two: the upper word exists. Always but with `last`.
            **({"both": 1} if count > 1 else {}),
            # Word of the beat in which the block's first word belongs; valid only with `first`.
            "place": range(width.words),
            "words": 16 * count,
        }
    )


def collect_words(m: Module, source: Any, beats: Any) -> None:
    """Collect one word per cycle into ``beats``, the first of a block at its place; others are zero.

    ``source`` is a push stream of :func:`table_words`. A beat is valid two cycles after the word that
    completes it: the beat's last, or the block's.
    """
    valid, item, beat = source.valid, source.payload, beats.payload
    words = len(beat) // 16
    # Stage 1: where the word goes, one-hot all the way, so that no decoder follows the choice between a
    # block's first word and one that follows; `fresh` empties the rest of the beat.
    following = Signal(words)
    at = Signal(words)
    m.d.comb += at.eq(Mux(item.first, 1 << item.place, following))
    with m.If(valid):
        m.d.sync += following.eq(at.rotate_left(1))
    p = Pipeline(m, control={"select", "full"})
    p.stage(
        word=item.words,
        select=Mux(valid, at, 0),
        fresh=valid & (item.first | at[0]),
        full=valid & (item.last | at[-1]),
    )
    # Stage 2: the beat.
    m.d.sync += beats.valid.eq(p.full)
    for i in range(words):
        kept = beat.word_select(i, 16)
        m.d.sync += kept.eq(Mux(p.select[i], p.word, Mux(p.fresh, 0, kept)))
