# SPDX-License-Identifier: BSD-2-Clause
"""The plane of 16-bit words at the head of a block, collected into beats."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data

from inceptionn.wire import GROUP_LANES

from ..parts.beat import Beat


def plane_words(lanes: int = GROUP_LANES, count: int = 1) -> data.StructLayout:
    """One word of a block's plane, or two."""
    return data.StructLayout(
        {
            "first": 1,
            "last": 1,
            # Only of two: the upper word exists. Always but with `last`.
            **({"both": 1} if count > 1 else {}),
            # Word of the beat in which the block's first word belongs; means something with `first` alone.
            "place": range(Beat(lanes).words),
            "words": 16 * count,
        }
    )


def collect_words(m: Module, source: Any, beats: Any) -> None:
    """Collects one word per cycle into ``beats``, the first of a block at its place; others are zero.

    ``source`` is a push stream of :func:`plane_words`. A beat is valid two cycles after the word that
    completes it: the beat's last, or the block's.
    """
    valid, item, beat = source.valid, source.payload, beats.payload
    words = len(beat) // 16
    # Stage 1: where the word goes, one-hot; `fresh` empties the rest of the beat.
    following = Signal.like(item.place)
    at = Signal.like(item.place)
    word1 = Signal(16, reset_less=True)
    select1 = Signal(words)
    fresh1 = Signal(reset_less=True)
    full1 = Signal()
    m.d.comb += at.eq(Mux(item.first, item.place, following))
    with m.If(valid):
        m.d.sync += following.eq(at + 1)
    m.d.sync += [
        word1.eq(item.words),
        select1.eq(Mux(valid, 1 << at, 0)),
        fresh1.eq(valid & (item.first | (at == 0))),
        full1.eq(valid & (item.last | at.all())),
        beats.valid.eq(full1),
    ]
    # Stage 2: the beat.
    for i in range(words):
        kept = beat.word_select(i, 16)
        m.d.sync += kept.eq(Mux(select1[i], word1, Mux(fresh1, 0, kept)))
