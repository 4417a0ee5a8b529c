# SPDX-License-Identifier: BSD-2-Clause
"""The junction of a stream that cannot wait and one that can."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..parts.axi import AXIStream


class PushGuard(wiring.Component):
    """Passes the beats of a source that cannot wait; a frame that loses one leaves marked bad.

    From the lost beat on the frame is dropped, and a beat with ``tlast`` and ``tuser`` ends it as soon as the
    sink is ready. Frames that come before that are dropped whole. The same happens to the frame that is
    in flight when ``cut`` rises: what the sink held of it may be gone. One beat per cycle, without latency.
    """

    def __init__(self, data_bytes: int):
        self.data_bytes = data_bytes
        stream = AXIStream(data_bytes)
        super().__init__(
            {
                "s_axis": In(stream),  #: ``tready`` is always high.
                #: A beat that is not taken at once is lost: only :class:`StreamCrossing` and the like may
                #: follow, which do not ask that ``tvalid`` holds.
                "m_axis": Out(stream),
                "cut": In(1),  #: The sink is, or was, in reset.
                "lost": Out(1),  #: For one cycle: a frame is lost.
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        source, sink = self.s_axis, self.m_axis
        begun = Signal()  # the source is inside a frame
        inside = Signal()  # so is the sink
        owed = Signal()  # the sink's frame is to be ended
        skip = Signal()  # the source's frame is dropped
        lose = Signal()
        m.d.comb += [
            source.tready.eq(1),
            sink.tvalid.eq(owed | (source.tvalid & ~skip)),
            sink.tdata.eq(source.tdata),
            sink.tkeep.eq(source.tkeep),
            sink.tlast.eq(source.tlast),
            sink.tuser.eq(source.tuser),
            lose.eq(~skip & Mux(source.tvalid, self.cut | owed | ~sink.tready, self.cut & begun)),
            self.lost.eq(lose),
        ]
        with m.If(owed):
            m.d.comb += [sink.tkeep.eq(1), sink.tlast.eq(1), sink.tuser.eq(1)]
        with m.If(source.tvalid):
            m.d.sync += [begun.eq(~source.tlast), skip.eq((skip | lose) & ~source.tlast)]
        with m.Elif(lose):
            m.d.sync += skip.eq(1)
        with m.If(sink.tvalid & sink.tready):
            m.d.sync += [inside.eq(~sink.tlast), owed.eq(0)]
        with m.If(lose & ~owed):
            m.d.sync += owed.eq(inside | (sink.tvalid & sink.tready & ~sink.tlast))
        return m
