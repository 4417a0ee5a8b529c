# SPDX-License-Identifier: BSD-2-Clause
"""Carries a target's ``tuser`` around an engine, frame by frame."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..parts.axi import AXIStream
from ..parts.queue import PushQueue


class UserForwarder(wiring.Component):
    """Takes the user word of each frame's first beat; gives it to all beats of the frame after an engine.

    The engine between ``to_engine`` and ``from_engine`` must give one frame for each that it takes, in order.
    One beat per cycle, without latency. The input waits while :attr:`FRAMES` frames are in the engine.

    Parameters
    ----------
    data_bytes : :class:`int`
    user_width : :class:`int`
        Bits of the user word that are carried.
    bad_bit : :class:`bool`
        The target's ``tuser`` has one more bit below them, which at ``tlast`` marks a bad frame; it goes
        through the engine.
    """

    FRAMES = 64 - 4
    """Frames between input and output, at least."""

    def __init__(self, data_bytes: int, user_width: int, *, bad_bit: bool):
        if user_width < 1:
            raise ValueError(f"user width must be positive, not {user_width!r}")
        self.data_bytes = data_bytes
        self.user_width = user_width
        self.bad_bit = bad_bit
        target = AXIStream(data_bytes, user_width + bad_bit)
        engine = AXIStream(data_bytes)
        super().__init__(
            {
                #: From the target; ``width`` is ``user_width``, plus one with ``bad_bit``.
                "s_axis": In(target),
                "to_engine": Out(engine),  #: To the engine, without the user word.
                "from_engine": In(engine),  #: From the engine.
                "m_axis": Out(target),  #: To the target.
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.words = words = PushQueue(self.user_width, 64, 4)
        # `passing` is decided between two frames and holds until the frame's last beat.
        first = Signal(init=1)
        passing = Signal()
        source, engine = self.s_axis, self.to_engine
        accept = Signal()
        m.d.comb += [
            engine.tvalid.eq(source.tvalid & passing),
            source.tready.eq(engine.tready & passing),
            accept.eq(source.tvalid & source.tready),
            engine.tdata.eq(source.tdata),
            engine.tkeep.eq(source.tkeep),
            engine.tlast.eq(source.tlast),
            words.i.valid.eq(accept & first),
        ]
        carried = source.tuser[1:] if self.bad_bit else source.tuser
        m.d.comb += words.i.payload.eq(carried)
        if self.bad_bit:
            m.d.comb += engine.tuser.eq(source.tuser[0])
        with m.If(accept):
            m.d.sync += first.eq(source.tlast)
        ended = accept & source.tlast
        m.d.sync += passing.eq(words.room | (passing & ~ended))

        answer, sink = self.from_engine, self.m_axis
        m.d.comb += [
            sink.tvalid.eq(answer.tvalid & words.o.valid),
            answer.tready.eq(sink.tready & words.o.valid),
            sink.tdata.eq(answer.tdata),
            sink.tkeep.eq(answer.tkeep),
            sink.tlast.eq(answer.tlast),
            words.o.ready.eq(sink.tready & answer.tvalid & answer.tlast),
        ]
        with_bad = (words.o.payload << 1) | (answer.tuser & answer.tlast)
        m.d.comb += sink.tuser.eq(with_bad if self.bad_bit else Mux(answer.tvalid, words.o.payload, 0))
        return m
