# SPDX-License-Identifier: BSD-2-Clause
"""Frames in block RAM: written as they come, read in any order of their words."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..parts.axi import AXIStream
from ..parts.memory import BlockRam
from ..parts.pipeline import Pipeline
from ..parts.queue import PushQueue

_FRAMES, _LOSSY_FRAMES = 16, 64
"""Places for frames that wait. While an engine works on a long frame, a line brings many short ones."""


def stored_frame(settings: Any) -> data.StructLayout:
    """Return the layout of a whole frame in the store."""
    return data.StructLayout(
        {
            "settings": settings,  # of its first beat
            "last": 12,  # its last word
            "top": 2,  # the place of its last byte in that word
            "bad": 1,
        }
    )


def length_of(frame: Any) -> Value:
    """Return a stored frame's bytes."""
    return Cat(frame.top, frame.last) + 1


class FrameStore(wiring.Component):
    """Holds whole frames in 16 KiB, and gives random access to the words of the oldest.

    A frame is there when its last word is. The input waits while other frames leave no room for this one. A
    frame longer than 16380 bytes has none, and is dropped whole.

    With ``lossy`` the input never waits. A frame without room, or marked bad, is dropped whole, and
    ``dropped`` tells. Up to 60 frames may wait, in place of 12.

    Throughput: a word per cycle in, a word per cycle out. A frame can be read four cycles after its last
    word, or in the cycle after the frame before it is taken. A word can be read in the cycle in which it is
    released.

    Parameters
    ----------
    settings : shape-like
        What holds for a frame from its first beat on.
    depth : :class:`int`
        Words of 4 bytes, a power of two; fewer in a proof.
    frames : :class:`int`
        Places for frames that wait, a power of two; by default as many as an engine needs.
    lossy : :class:`bool`
        For a source that cannot wait.
    """

    LATENCY = BlockRam.LATENCY
    """Cycles from ``address`` to ``word``."""
    LONGEST = 16380
    """Bytes of the longest frame that it holds."""

    def __init__(self, settings: Any, depth: int = 4096, frames: int = 0, *, lossy: bool = False):
        self.stored = stored_frame(settings)
        self.depth = depth
        self.lossy = lossy
        self.places = frames or (_LOSSY_FRAMES if lossy else _FRAMES)
        super().__init__(
            {
                "s_axis": In(AXIStream(4)),  #: ``tuser`` at ``tlast``: bad frame.
                #: Sampled in the cycle after a frame's first beat was accepted; if ``lossy``, in the one
                #: before the frame becomes the oldest.
                "settings": In(settings),
                "frames": Out(stream.Signature(self.stored)),  #: The oldest; taking it frees its room.
                "release": In(1),  #: One more of its words is not needed any more; its room is free.
                "address": In(range(depth)),  #: Of a word of the oldest frame.
                "word": Out(32),  #: The word of :attr:`LATENCY` cycles before.
                #: For one cycle, after its last word was accepted: a frame was dropped.
                **({"dropped": Out(1)} if lossy else {}),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.ram = ram = BlockRam(32, self.depth)
        waiting = self.stored.members
        if self.lossy:  # no frame that waits is bad, and its settings are sampled later
            waiting = {name: waiting[name] for name in ("last", "top")}
        m.submodules.queue = queue = PushQueue(data.StructLayout(waiting), self.places, 4)
        begin = Signal(range(self.depth))  # of the frame that comes
        words = Signal(range(self.depth))  # of it, so far
        oldest = Signal(range(self.depth))  # the first word of the oldest frame
        used = Signal(range(self.depth + 1))  # words of whole frames
        refuse = Signal()  # the rest of this frame is dropped
        full = Signal()  # a cycle late, so that the word that comes meanwhile takes the last place
        source, frame = self.s_axis, self.frames.payload
        keep = source.tkeep
        ragged = Signal()  # a word before the last was not whole
        bad = source.tuser | ragged
        taken = source.tvalid & source.tready
        most = words.all()  # a frame has no more words
        skip = Signal()  # this word is not stored
        whole = taken & source.tlast & ~skip & (~bad if self.lossy else 1)
        takes = Signal()  # the oldest frame is taken
        released = Signal(range(self.depth))  # words of it
        freed = Signal(range(self.depth + 1))
        if self.lossy:
            m.d.comb += [source.tready.eq(1), skip.eq(refuse | most | full | ~queue.room)]
            m.d.sync += self.dropped.eq(taken & source.tlast & ~whole)
        else:
            m.d.comb += [source.tready.eq(queue.room & (~full | skip)), skip.eq(refuse | most)]
        m.d.comb += takes.eq(self.frames.valid & self.frames.ready)
        m.d.sync += [
            full.eq(words + used >= self.depth - 1),
            released.eq(Mux(takes, 0, released + self.release)),
            freed.eq(Mux(takes, frame.last + 1 - released, self.release)),
            used.eq(used + Mux(whole, words + 1, 0) - freed),
        ]
        with m.If(takes):
            m.d.sync += oldest.eq(oldest + frame.last + 1)
        with m.If(taken):
            m.d.sync += [
                words.eq(Mux(source.tlast | skip, 0, words + 1)),
                refuse.eq(~source.tlast & skip),
                ragged.eq(~source.tlast & (ragged | ~keep.all())),
            ]
        with m.If(whole):
            m.d.sync += begin.eq(begin + words + 1)
        m.d.comb += [
            ram.write.eq(taken & ~skip),
            ram.write_address.eq(begin + words),
            ram.write_data.eq(source.tdata),
            ram.read_address.eq(oldest + self.address),
            self.word.eq(ram.read_data),
        ]
        # A frame is announced two cycles after its last word, when the settings of its first are there.
        p = Pipeline(m, "ended_", control={"valid"})
        p.let(valid=whole, last=words, top=Cat(keep[3] | (keep[1] & ~keep[2]), keep[2]), bad=bad)
        p.until(2)
        self.probes = {
            "ram": ram, "queue": queue, "begin": begin, "words": words, "oldest": oldest, "used": used,
            "refuse": refuse, "full": full, "released": released, "freed": freed, "ragged": ragged,
            "ended": p,
        }  # fmt: skip
        announced = queue.i.payload
        m.d.comb += [
            queue.i.valid.eq(p.valid),
            announced.last.eq(p.last),
            announced.top.eq(p.top),
            self.frames.valid.eq(queue.o.valid),
            queue.o.ready.eq(self.frames.ready),
        ]
        if self.lossy:
            m.d.comb += [frame[name].eq(queue.o.payload[name]) for name in waiting]
        else:
            m.d.comb += [frame.eq(queue.o.payload), announced.bad.eq(p.bad)]
        self._settings(m, frame if self.lossy else announced, taken, takes)
        return m

    def _settings(self, m: Module, frame: Any, taken: Value, takes: Value) -> None:
        """Sample the settings: of each frame as it waits, or of the oldest alone."""
        settings = Signal(self.settings.shape(), reset_less=True)
        m.d.comb += frame.settings.eq(settings)
        if self.lossy:
            samples: Value = ~self.frames.valid | takes
        else:
            first = Signal(init=1)
            samples = Signal(name="begun")
            m.d.sync += samples.eq(taken & first)
            with m.If(taken):
                m.d.sync += first.eq(self.s_axis.tlast)
            self.probes |= {"first": first, "begun": samples}
        self.probes["settings_held"] = settings
        with m.If(samples):
            m.d.sync += settings.eq(self.settings)
