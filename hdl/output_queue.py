# SPDX-License-Identifier: BSD-2-Clause
"""The queue between an engine's last pipeline stage and its AXI4-Stream output."""

from typing import Any

from amaranth.hdl import Module, Mux
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from inceptionn.hdl.axi import AXIStream
from inceptionn.hdl.queue import PushQueue
from inceptionn.wire import BURST_BYTES


class OutputBeat(data.Struct):
    """A beat with its length packed: ``ending`` is the last beat's bytes modulo 32 (0: all)."""

    tdata: 8 * BURST_BYTES
    tlast: 1
    tuser: 1
    ending: 5


class _StoredBeat(data.Struct):
    """The same in the queue: ``top`` is the place of the beat's last byte."""

    tdata: 8 * BURST_BYTES
    tlast: 1
    tuser: 1
    top: 5


class OutputQueue(wiring.Component):
    """A :class:`PushQueue` of beats with an AXI4-Stream output; ``tkeep`` is expanded behind it.

    Parameters
    ----------
    slack : :class:`int`
        Most pushes that can follow after ``room`` has fallen.

    Members
    -------
    push, push_data, room
        As of :class:`PushQueue`.
    m_axis : :py:`Out(AXIStream())`
    """

    DEPTH = 32

    def __init__(self, slack: int):
        self.slack = slack
        super().__init__(
            {"push": In(1), "push_data": In(OutputBeat), "room": Out(1), "m_axis": Out(AXIStream())}
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.queue = queue = PushQueue(_StoredBeat, self.DEPTH, self.slack, elastic=True)
        beat = queue.data
        m.d.comb += [
            queue.push.eq(self.push),
            queue.push_data.tdata.eq(self.push_data.tdata),
            queue.push_data.tlast.eq(self.push_data.tlast),
            queue.push_data.tuser.eq(self.push_data.tuser),
            queue.push_data.top.eq(Mux(self.push_data.tlast, self.push_data.ending - 1, ~0)),
            self.room.eq(queue.room),
            self.m_axis.tvalid.eq(queue.valid),
            self.m_axis.tdata.eq(beat.tdata),
            self.m_axis.tlast.eq(beat.tlast),
            self.m_axis.tuser.eq(beat.tuser),
            queue.pop.eq(self.m_axis.tready),
        ]
        for i in range(BURST_BYTES):
            m.d.comb += self.m_axis.tkeep[i].eq(beat.top >= i)
        return m
