# SPDX-License-Identifier: BSD-2-Clause
"""Frames in block RAM: written as they come, read in any order of their words."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..parts.axi import AXIStream
from ..parts.memory import BlockRam
from ..parts.queue import PushQueue

_FRAMES = 32


class StoredFrame(data.Struct):
    """A whole frame in the store."""

    top: 2  # place of its last byte in its last word
    last: 12  # its last word
    bad: 1

    @property
    def length(self) -> Value:
        """Its bytes."""
        return Cat(self.top, self.last) + 1


class FrameStore(wiring.Component):
    """Holds whole frames in 16 KiB, and gives random access to the words of the oldest.

    A frame is there when its last word is. The input waits while other frames leave no room for this one. A
    frame longer than 16380 bytes has none, and is dropped whole.

    Throughput: a word per cycle in, a word per cycle out. A frame can be read three cycles after its last
    word.

    Parameters
    ----------
    depth : :class:`int`
        Words of 4 bytes, a power of two; fewer in a proof.
    """

    LATENCY = BlockRam.LATENCY
    """Cycles from ``address`` to ``word``."""

    def __init__(self, depth: int = 4096):
        self.depth = depth
        super().__init__(
            {
                "s_axis": In(AXIStream(4)),  #: ``tuser`` at ``tlast``: bad frame.
                "frames": Out(stream.Signature(StoredFrame)),  #: The oldest; taking it frees its room.
                "address": In(range(depth)),  #: Of a word of the oldest frame.
                "word": Out(32),  #: The word of :attr:`LATENCY` cycles before.
                "dropped": Out(1),  #: For one cycle: a frame was too long.
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.ram = ram = BlockRam(32, self.depth)
        m.submodules.queue = queue = PushQueue(StoredFrame, _FRAMES, 2)
        wiring.connect(m, queue.o, wiring.flipped(self.frames))
        begin = Signal(range(self.depth))  # of the frame that comes
        words = Signal(range(self.depth))  # of it, so far
        oldest = Signal(range(self.depth))  # the first word of the oldest frame
        used = Signal(range(self.depth + 1))  # words of whole frames
        too_long = Signal()
        full = Signal()  # a cycle late, so that the word that comes meanwhile takes the last place
        source, frame = self.s_axis, self.frames.payload
        keep = source.tkeep
        taken = source.tvalid & source.tready
        most = words.all()  # a frame has no more words
        whole = taken & source.tlast & ~too_long & ~most
        freed = Signal(range(self.depth + 1))
        m.d.comb += source.tready.eq(queue.room & (~full | too_long | most))
        m.d.sync += [
            full.eq(words + used >= self.depth - 1),
            freed.eq(Mux(self.frames.valid & self.frames.ready, frame.last + 1, 0)),
            used.eq(used + Mux(whole, words + 1, 0) - freed),
            oldest.eq(oldest + freed),
            self.dropped.eq(taken & source.tlast & (too_long | most)),
        ]
        with m.If(taken):
            m.d.sync += [
                words.eq(Mux(source.tlast | too_long | most, 0, words + 1)),
                too_long.eq(~source.tlast & (too_long | most)),
            ]
        with m.If(whole):
            m.d.sync += begin.eq(begin + words + 1)
        m.d.comb += [
            ram.write.eq(taken & ~too_long & ~most),
            ram.write_address.eq(begin + words),
            ram.write_data.eq(source.tdata),
            ram.read_address.eq(oldest + self.address),
            self.word.eq(ram.read_data),
            queue.i.valid.eq(whole),
            queue.i.payload.top.eq(Cat(keep[3] | (keep[1] & ~keep[2]), keep[2])),
            queue.i.payload.last.eq(words),
            queue.i.payload.bad.eq(source.tuser),
        ]
        return m
