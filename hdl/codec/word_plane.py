# SPDX-License-Identifier: BSD-2-Clause
"""The plane of 16-bit words at the head of a block, collected into beats."""

from amaranth.hdl import Module, Mux, Signal, Value


def collect_words(
    m: Module,
    word: Value,
    beat: Signal,
    beat_valid: Signal,
    *,
    valid: Value,
    first: Value,
    last: Value,
    place: Value,
) -> None:
    """Collects one word per cycle into ``beat``, the first of a block at ``place``; others are zero.

    The beat is valid two cycles after the word that completes it: the beat's last, or the block's.
    """
    words = len(beat) // 16
    # Stage 1: where the word goes, one-hot; `fresh` empties the rest of the beat.
    following = Signal(len(place))
    at = Signal(len(place))
    word1 = Signal(16, reset_less=True)
    select1 = Signal(words)
    fresh1 = Signal(reset_less=True)
    full1 = Signal()
    m.d.comb += at.eq(Mux(first, place, following))
    with m.If(valid):
        m.d.sync += following.eq(at + 1)
    m.d.sync += [
        word1.eq(word),
        select1.eq(Mux(valid, 1 << at, 0)),
        fresh1.eq(valid & (first | (at == 0))),
        full1.eq(valid & (last | at.all())),
        beat_valid.eq(full1),
    ]
    # Stage 2: the beat.
    for i in range(words):
        kept = beat.word_select(i, 16)
        m.d.sync += kept.eq(Mux(select1[i], word1, Mux(fresh1, 0, kept)))
