# SPDX-License-Identifier: BSD-2-Clause
"""The queue after one of several engines: the engine's beats in, whole frames of wide words out."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..frame.frame_input import FrameInput
from ..parts.axi import AXIStream
from ..parts.memory import BlockRam
from ..parts.queue import PushQueue
from ..parts.width import BURST, Width
from .dispatch_queue import check_engines


def piece_layout(engines: int, width: Width = BURST) -> data.StructLayout:
    """Return the layout of words that are ready: of a frame, or a piece of one too long to be kept whole.

    ``end``: of the frame; ``ending`` (bytes of the last word modulo its width) and ``bad`` count then.
    """
    return data.StructLayout(
        {
            "words": range(CollectQueue.MOST_WORDS + 1),
            "ending": range(engines * width.bytes),
            "bad": 1,
            "end": 1,
        }
    )


class CollectQueue(wiring.Component):
    """Packs an engine's beats into words of ``engines`` bursts and announces every frame when it is whole.

    So a frame leaves without a gap, however slowly it came. A frame of more than :attr:`MOST_WORDS` words is
    announced in pieces of that length. A frame that is not kept is dropped and not announced.

    Throughput: one beat in, one word out per cycle. A frame is announced 4 cycles after its last beat.

    Parameters
    ----------
    engines : :class:`int`
        Bursts in a word, 2 or 4.
    width : :class:`Width`
        Of an engine.
    """

    DEPTH = 512
    PIECES = 64
    MOST_WORDS = 256
    """Words of a piece: 16 KiB at two engines of 8 lanes, half of the memory."""
    _MARGIN = 8  # beats that come when `room` has fallen, and the words that are still being read

    def __init__(self, engines: int, width: Width = BURST):
        check_engines(engines)
        self.burst_bytes = width.bytes
        self.engines = engines
        self.width = width
        super().__init__(
            {
                "s_axis": In(AXIStream(self.burst_bytes)),  #: From the engine.
                "keep": In(1),  #: Whether the frame that ends next is kept; holds until ``ended``.
                #: A frame has come to its end and the next value of ``keep`` is due in the next cycle.
                "ended": Out(1),
                "pieces": Out(stream.Signature(piece_layout(engines, width))),  #: The announcements.
                "step": In(1),  #: Reads the next word; as many steps as a taken piece has words.
                "data": Out(8 * engines * self.burst_bytes),  #: The word of the step two cycles before.
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.input = source = FrameInput(data_bytes=self.burst_bytes)
        shape = piece_layout(self.engines, self.width)
        m.submodules.pieces = pieces = PushQueue(shape, self.PIECES, 4)
        wiring.connect(m, wiring.flipped(self.s_axis), source.s_axis)
        beats, beat = source.beats, source.beats.payload
        places = range(self.engines)

        write, read, used = (Signal(range(self.DEPTH), name=name) for name in ("write", "read", "used"))
        place = Signal(places)
        words = Signal(range(self.MOST_WORDS))  # of the frame or piece, before the word in progress
        full_word = Signal()
        ended = Signal()
        cut = Signal()
        m.d.comb += [
            ended.eq(beats.valid & beat.last),
            full_word.eq(beats.valid & (beat.last | (place == self.engines - 1))),
            cut.eq(full_word & (words == self.MOST_WORDS - 1)),
            self.ended.eq(ended),
        ]
        with m.If(beats.valid):
            m.d.sync += place.eq(Mux(beat.last, 0, place + 1))
        with m.If(full_word & self.keep):
            m.d.sync += [write.eq(write + 1), words.eq(Mux(beat.last | cut, 0, words + 1))]
        m.d.sync += [
            read.eq(read + self.step),
            used.eq(write - read),
            source.room.eq((used < self.DEPTH - self._MARGIN) & pieces.room),
            pieces.i.valid.eq((ended | cut) & self.keep),
            pieces.i.payload.words.eq(words + 1),
            pieces.i.payload.ending.eq(place * self.burst_bytes + beat.count),
            pieces.i.payload.bad.eq(beat.bad),
            pieces.i.payload.end.eq(beat.last),
        ]
        for i in places:
            m.submodules[f"bank{i}"] = bank = BlockRam(8 * self.burst_bytes, self.DEPTH)
            m.d.comb += [
                bank.write.eq(beats.valid & (place == i)),
                bank.write_address.eq(write),
                bank.write_data.eq(beat.data),
                bank.read_address.eq(read),
                self.data.word_select(i, 8 * self.burst_bytes).eq(bank.read_data),
            ]
        wiring.connect(m, pieces.o, wiring.flipped(self.pieces))
        return m
