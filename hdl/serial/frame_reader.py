# SPDX-License-Identifier: BSD-2-Clause
"""Frames in a store, their words in any order, and their headers: the front of both engines of one lane."""

from typing import Any

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..codec.shape import EngineShape
from ..control.config import EngineConfig
from ..parts.axi import AXIStream
from ..parts.pipeline import Pipeline
from .frame_store import FrameStore, length_of, stored_frame
from .word_parser import WordParser, parsed_words


class FrameReader(wiring.Component):
    """Gives the words of the oldest frame, as they are and aligned, and its headers.

    ::

        s_axis ─► FrameStore ─► word ─┬─► with two bytes of the word before ─► aligned
                                      └─► WordParser ─► headers

    Latency: :attr:`LATENCY` cycles from ``address`` to the word, three more from the headers' last word to
    ``headers``.

    Parameters
    ----------
    shape : :class:`EngineShape`
    transmit : :class:`bool`
        As of the parser.
    lossy : :class:`bool`
        As of the store.
    """

    LATENCY = FrameStore.LATENCY
    """Cycles from ``address`` to ``word`` and ``aligned``."""

    def __init__(self, shape: EngineShape, *, transmit: bool, lossy: bool = False):
        self.shape = shape
        self.transmit = transmit
        self.lossy = lossy
        self.settings = data.StructLayout({"config": EngineConfig, **({"bf16_tos": 8} if shape.bf16 else {})})
        super().__init__(
            {
                "s_axis": In(AXIStream(shape.bytes)),  #: As of the engine.
                "config": In(EngineConfig),  #: As of the engine.
                **({"bf16_tos": In(8)} if shape.bf16 else {}),  #: As of the engine.
                "frames": Out(stream.Signature(stored_frame(self.settings))),  #: As of the store.
                "release": In(1),  #: As of the store.
                "address": In(12),  #: Of a word of the oldest frame.
                "start": In(1),  #: The frame's headers begin with the next word that advances.
                "advances": In(1),  #: The word at ``address`` follows the one that advanced before it.
                "header": In(1),  #: Likewise: it belongs to the headers.
                "complete": In(1),  #: Likewise: it is word 14, or the frame's last before it.
                "word": Out(32),  #: As it lies in the store.
                "aligned": Out(32),  #: The four bytes that end two bytes before the word does.
                "sums": Out(16),  #: As of the parser.
                "headers": Out(stream.Signature(parsed_words(), always_ready=True)),  #: As of the parser.
                **({"dropped": Out(1)} if lossy else {}),  #: As of the store.
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.store = store = FrameStore(self.settings, lossy=self.lossy)
        m.submodules.parser = parser = WordParser(self.shape, transmit=self.transmit)
        wiring.connect(m, wiring.flipped(self.s_axis), store.s_axis)
        wiring.connect(m, store.frames, wiring.flipped(self.frames))
        wiring.connect(m, parser.headers, wiring.flipped(self.headers))
        frame = store.frames.payload
        p = Pipeline(m, "arrives_", control={"advances", "header", "complete"})
        p.let(advances=self.advances, header=self.header, complete=self.complete)
        p.until(self.LATENCY)
        before = Signal(16, reset_less=True)
        advances = p.advances
        with m.If(advances):
            m.d.sync += before.eq(store.word[16:])
        m.d.comb += [
            store.settings.config.eq(self.config),
            store.release.eq(self.release),
            store.address.eq(self.address),
            self.word.eq(store.word),
            self.aligned.eq(Cat(before, store.word[:16])),
            parser.config.eq(frame.settings.config),
            parser.start.eq(self.start),
            parser.valid.eq(p.header),
            parser.word.eq(store.word),
            parser.aligned.eq(self.aligned),
            parser.complete.eq(p.complete),
            parser.length.eq(length_of(frame)),
            self.sums.eq(parser.sums),
        ]
        if self.lossy:
            m.d.comb += self.dropped.eq(store.dropped)
        if self.shape.bf16:
            m.d.comb += [
                store.settings.bf16_tos.eq(self.bf16_tos),
                parser.bf16_tos.eq(frame.settings.bf16_tos),
            ]
        return m
