# SPDX-License-Identifier: BSD-2-Clause
"""The tag table: a block's tag words, collected into beats (wire format, section 2)."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ...parts.queue import PushQueue
from ...parts.width import BURST, Width
from ..word_table import collect_words, table_words


class TagTable(wiring.Component):
    """Collects tag words into beats, the first of a block at a given place in its beat.

    One word per cycle with 8 lanes, two with 16. A beat of 16 or 32 words leaves :attr:`latency` cycles after
    the word that completes it: 2, with 16 lanes 4.

    With 16 lanes, a block of an even number of words may end with the first word of a beat. It completes two
    beats in its last cycle. The second leaves one cycle later, and what follows waits in a short queue. So
    such a block takes one cycle more than it has pairs of words. At most two such cycles may be *owed*: not
    yet made up for by an idle one. A frame always has an idle one: headers of at least 42 bytes precede the
    payload and 33 to 64 bytes are in its last burst, so it has one burst less than its frame has beats.
    """

    def __init__(self, width: Width = BURST):
        self.width = width
        self.latency = self.latency_of(self.width)
        super().__init__(
            {
                #: Tag words, in the lanes' order.
                "words": In(stream.Signature(table_words(width, self.width.groups), always_ready=True)),
                #: Zero where the block has no tag word.
                "beats": Out(stream.Signature(self.width.bits, always_ready=True)),
            }
        )

    @staticmethod
    def latency_of(width: Width) -> int:
        """Count the cycles from the word that completes a beat to the beat."""
        return 2 if width.groups == 1 else 4

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        if self.width.groups > 1:
            self._collect_pairs(m)
        else:
            collect_words(m, self.words, self.beats)
        return m

    def _collect_pairs(self, m: Module) -> None:
        """Collect two words per cycle, after a queue.

        The upper word belongs one place after the lower. After the beat's last place, it is *carried*: it
        begins the next beat a cycle later, together with the words of that cycle.
        """
        words, beat = self.width.words, self.beats.payload
        m.submodules.queue = queue = PushQueue(table_words(self.width, 2), 4, 0)
        wiring.connect(m, wiring.flipped(self.words), queue.i)

        # Stage 1. `alone1`: the word carried ends its block, so this cycle is its own.
        pair = queue.o.payload
        following = Signal.like(pair.place)
        place = Signal.like(pair.place)
        lower1 = Signal(16, reset_less=True)
        upper1 = Signal(16, reset_less=True)
        select1 = Signal(words)
        fresh1 = Signal(reset_less=True)
        full1 = Signal()
        carries1 = Signal()
        alone1 = Signal()
        valid = queue.o.valid & ~alone1
        m.d.comb += [queue.o.ready.eq(~alone1), place.eq(Mux(pair.first, pair.place, following))]
        with m.If(valid):
            m.d.sync += following.eq(place + 2)
        carries = valid & place.all() & pair.both
        m.d.sync += [
            Cat(lower1, upper1).eq(pair.words),
            select1.eq(Mux(valid, 1 << place, 0)),
            fresh1.eq(valid & (pair.first | (place == 0))),
            full1.eq(alone1 | (valid & (pair.last | place[1:].all()))),
            carries1.eq(carries),
            alone1.eq(carries & pair.last),
            self.beats.valid.eq(full1),
        ]

        # Stage 2: the beat.
        carried2 = Signal()
        word2 = Signal(16, reset_less=True)
        m.d.sync += [carried2.eq(carries1), word2.eq(upper1)]
        for i in range(words):
            word = beat.word_select(i, 16)
            kept = Mux(fresh1 | carried2, 0, word)
            upper = Mux(select1[i - 1], upper1, kept) if i else Mux(carried2, word2, kept)
            m.d.sync += word.eq(Mux(select1[i], lower1, upper))
