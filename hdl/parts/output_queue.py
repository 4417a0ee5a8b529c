# SPDX-License-Identifier: BSD-2-Clause
"""The queue between an engine's last pipeline stage and its AXI4-Stream output."""

from typing import Any

from amaranth.hdl import Module, Mux
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from .axi import AXIStream
from .queue import ElasticQueue
from .width import BURST, Width


def output_beat(width: Width = BURST) -> data.StructLayout:
    """Return the layout of a beat with its length packed.

    ``ending`` is the last beat's bytes modulo its width (0: all).
    """
    return data.StructLayout({"tdata": width.bits, "tlast": 1, "tuser": 1, "ending": range(width.bytes)})


class OutputQueue(wiring.Component):
    """A :class:`PushQueue` of beats with an AXI4-Stream output; ``tkeep`` is expanded at its output.

    One beat per cycle; latency two cycles.

    Parameters
    ----------
    slack : :class:`int`
        Most pushes that can follow after ``room`` has fallen.
    width : :class:`Width`
    """

    DEPTH = 32

    def __init__(self, slack: int, width: Width = BURST):
        self.data_bytes = width.bytes
        self.slack = slack
        super().__init__(
            {
                "i": In(stream.Signature(output_beat(width), always_ready=True)),  #: The beats to queue.
                "room": Out(1),  #: As of :class:`PushQueue`.
                "m_axis": Out(AXIStream(self.data_bytes)),  #: The beats, one per cycle while they last.
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        # `top`: the place of the beat's last byte.
        stored = data.StructLayout(
            {"tdata": 8 * self.data_bytes, "tlast": 1, "tuser": 1, "top": range(self.data_bytes)}
        )
        m.submodules.queue = queue = ElasticQueue(stored, self.DEPTH, self.slack, in_ram={"tdata"})
        beat = queue.o.payload
        m.d.comb += [
            queue.i.valid.eq(self.i.valid),
            queue.i.payload.tdata.eq(self.i.payload.tdata),
            queue.i.payload.tlast.eq(self.i.payload.tlast),
            queue.i.payload.tuser.eq(self.i.payload.tuser),
            queue.i.payload.top.eq(Mux(self.i.payload.tlast, self.i.payload.ending - 1, ~0)),
            self.room.eq(queue.room),
            self.m_axis.tvalid.eq(queue.o.valid),
            self.m_axis.tdata.eq(beat.tdata),
            self.m_axis.tlast.eq(beat.tlast),
            self.m_axis.tuser.eq(beat.tuser),
            queue.o.ready.eq(self.m_axis.tready),
        ]
        for i in range(self.data_bytes):
            m.d.comb += self.m_axis.tkeep[i].eq(beat.top >= i)
        return m
