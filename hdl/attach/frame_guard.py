# SPDX-License-Identifier: BSD-2-Clause
"""Keeps frames complete between two sides that are reset at different times."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from inceptionn.wire import BURST_BYTES

from ..parts.axi import AXIStream
from ..parts.elastic_register import ElasticRegister


class FrameGuard(wiring.Component):
    """Passes frames. Neither side ever sees the rest of a frame that a reset of the other side has cut.

    If the source is reset inside a frame, the frame is ended by one more beat of one byte with ``tlast``,
    marked bad. If the sink is reset inside a frame, the rest of the frame is dropped; frames that have not
    begun wait for the sink. While a side is in reset, nothing is taken from it or offered to it.

    Throughput: one beat per cycle. Latency: one cycle. Every control output comes from a flip-flop or one
    gate after it.

    Parameters
    ----------
    data_bytes, user_width : :class:`int`
        As of :class:`AXIStream`; bit 0 of ``tuser`` at ``tlast`` marks a bad frame.
    """

    def __init__(self, data_bytes: int = BURST_BYTES, user_width: int = 1):
        self.data_bytes = data_bytes
        self.user_width = user_width
        stream = AXIStream(data_bytes, user_width)
        super().__init__(
            {
                "s_axis": In(stream),  #: From the source.
                "m_axis": Out(stream),  #: To the sink.
                #: The source is in reset; synchronous to this clock. What it does in the first cycles of its
                #: reset, before this rises, does not matter.
                "source_reset": In(1),
                "sink_reset": In(1),  #: Likewise of the sink.
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        source, sink = self.s_axis, self.m_axis
        shape = data.StructLayout(
            {"tdata": 8 * self.data_bytes, "tkeep": self.data_bytes, "tuser": self.user_width, "tlast": 1}
        )
        m.submodules.register = register = ElasticRegister(shape)

        # In front of the register: `begun`, it has a frame's beginning; `closing`, its end is owed.
        begun = Signal()
        closing = Signal()
        end = Signal()
        m.d.comb += [
            end.eq(begun & (self.source_reset | closing)),
            source.tready.eq(register.i.ready & ~self.source_reset & ~closing),
            register.i.valid.eq(Mux(self.source_reset | closing, begun, source.tvalid)),
            register.i.payload.tdata.eq(source.tdata),
            register.i.payload.tkeep.eq(Mux(end, 1, source.tkeep)),
            register.i.payload.tuser.eq(Mux(end, 1, source.tuser)),
            register.i.payload.tlast.eq(end | source.tlast),
        ]
        m.d.sync += closing.eq(end & ~register.i.ready)
        with m.If(register.i.valid & register.i.ready):
            m.d.sync += begun.eq(~register.i.payload.tlast)

        # After it: `inside`, the current frame has begun to leave; `discard`, its rest is dropped.
        inside = Signal()
        discard = Signal()
        m.d.comb += [
            sink.tvalid.eq(register.o.valid & ~self.sink_reset & ~discard),
            register.o.ready.eq(discard | (sink.tready & ~self.sink_reset)),
        ]
        for name in shape.members:
            m.d.comb += getattr(sink, name).eq(register.o.payload[name])
        moved = Signal()
        m.d.comb += moved.eq(register.o.valid & register.o.ready)
        with m.If(moved):
            m.d.sync += inside.eq(~register.o.payload.tlast)
        with m.If(discard):
            m.d.sync += discard.eq(~(moved & register.o.payload.tlast))
        with m.Elif(self.sink_reset):
            m.d.sync += discard.eq(inside)
        return m
