# SPDX-License-Identifier: BSD-2-Clause
"""The queue before one of several engines: wide words in, the engine's own beats out."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..parts.axi import AXIStream
from ..parts.memory import BlockRam
from ..parts.output_queue import OutputQueue
from ..parts.pipeline import Pipeline
from ..parts.queue import PushQueue
from ..parts.width import BURST, Width


def check_engines(engines: int) -> None:
    """Raise ``ValueError`` unless ``engines``, the number of engines of one stream, is 2 or 4."""
    if not isinstance(engines, int) or engines not in (2, 4):
        raise ValueError(f"engines side by side must be 2 or 4, not {engines!r}")


def word_layout(engines: int, width: Width = BURST) -> data.StructLayout:
    """Return the layout of a beat of the wide stream: ``engines`` bursts.

    ``count`` is its bytes, ``bad`` counts with ``last``.
    """
    count = engines * width.bytes
    return data.StructLayout({"data": 8 * count, "count": range(count + 1), "last": 1, "bad": 1})


class DispatchQueue(wiring.Component):
    """Takes words of a stream that is ``engines`` bursts wide; gives them burst by burst.

    The data is in as many block RAMs as a word has bursts, written at once and read one after the other. What
    the reader needs (last word, its bursts) is in LUT RAM.

    Throughput: one word in and one burst out per cycle. An empty queue shows a word's first burst 7 cycles
    after its push. A frame may leave before it is whole.

    Parameters
    ----------
    engines : :class:`int`
        Bursts in a word, 2 or 4.
    width : :class:`Width`
        Of an engine.
    """

    DEPTH = 512  # words: what block RAMs of series 7 hold at their greatest width
    SLACK = 8

    def __init__(self, engines: int, width: Width = BURST):
        check_engines(engines)
        self.burst_bytes = width.bytes
        self.engines = engines
        self.width = width
        super().__init__(
            {
                #: Every word but a frame's last is full.
                "words": In(stream.Signature(word_layout(engines, width), always_ready=True)),
                "room": Out(1),  #: Registered: at least :attr:`SLACK` places are free.
                "popped": Out(1),  #: A word's last burst is read in this cycle.
                "m_axis": Out(AXIStream(self.burst_bytes)),  #: To the engine.
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        places, burst = range(self.engines), self.burst_bytes
        note = data.StructLayout({"last": 1, "bad": 1, "final": places, "ending": range(burst)})
        m.submodules.notes = notes = PushQueue(note, self.DEPTH, self.SLACK)
        m.submodules.output = output = OutputQueue(BlockRam.LATENCY + 3, self.width)
        wiring.connect(m, output.m_axis, wiring.flipped(self.m_axis))

        push, word = self.words.valid, self.words.payload
        write = Signal(range(self.DEPTH))
        before = Signal.like(word.count)
        m.d.comb += [
            before.eq(word.count - 1),
            notes.i.valid.eq(push),
            notes.i.payload.last.eq(word.last),
            notes.i.payload.bad.eq(word.bad),
            notes.i.payload.final.eq(Mux(word.last, before // burst, self.engines - 1)),
            notes.i.payload.ending.eq(word.count % burst),
            self.room.eq(notes.room),
        ]
        m.d.sync += write.eq(write + push)

        read = Signal(range(self.DEPTH))
        place = Signal(places)
        go = Signal()
        final = Signal()
        m.d.comb += [
            final.eq(place == notes.o.payload.final),
            go.eq(notes.o.valid & output.room),
            self.popped.eq(go & final),
            notes.o.ready.eq(self.popped),
        ]
        with m.If(go):
            m.d.sync += place.eq(Mux(final, 0, place + 1))
        m.d.sync += read.eq(read + self.popped)

        bursts = []
        for i in places:
            m.submodules[f"bank{i}"] = bank = BlockRam(8 * burst, self.DEPTH)
            m.d.comb += [
                bank.write.eq(push),
                bank.write_address.eq(write),
                bank.write_data.eq(word.data.word_select(i, 8 * burst)),
                bank.read_address.eq(read),
            ]
            bursts.append(bank.read_data)
        last = final & notes.o.payload.last
        p = Pipeline(m, control={"go"})
        p.let(
            go=go,
            place=place,
            last=last,
            bad=notes.o.payload.bad,
            ending=Mux(last, notes.o.payload.ending, 0),
        )
        p.until(BlockRam.LATENCY)
        m.d.sync += [
            output.i.valid.eq(p.go),
            output.i.payload.tdata.eq(Cat(bursts).word_select(p.place, 8 * burst)),
            output.i.payload.tlast.eq(p.last),
            output.i.payload.tuser.eq(p.last & p.bad),
            output.i.payload.ending.eq(p.ending),
        ]
        return m
