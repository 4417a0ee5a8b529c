# SPDX-License-Identifier: BSD-2-Clause
"""Decides when a group may be extracted from the received data."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from ..parts.delay import delayed
from ..parts.pipeline import Pipeline
from ..parts.width import BURST, Width
from .block_splitter import block_end
from .ring_window import group_request
from .table_decoder import BEAT_BITS, group_layout


def issued_group(width: Width = BURST) -> data.StructLayout:
    """Return the layout of the facts about a group that its decompression needs."""
    return data.StructLayout(
        {
            # The last of its block, and the lanes in it, less one.
            "last": 1,
            "more_lanes": exact_log2(width.lanes),
            "base": 8,
            # The group is impossible; of a block's last one also: the block has another end than announced.
            "fault": 1,
        }
    )


class GroupIssue(wiring.Component):
    """Issues groups in order, each as soon as its bytes have arrived and its burst has room.

    The last group of a block waits for the block's end: only then is its length known to fit. After that end
    a group goes with or without its bytes. While a last group has its bytes and the block does not end,
    all further input is surplus (the Decompressor drops it).

    Throughput: one group per cycle; a block of one group takes two cycles.

    Parameters
    ----------
    marks : :class:`str`, :class:`int`
        Name and width of a group's marks.
    width : :class:`Width`
    """

    def __init__(self, marks: tuple[str, int], width: Width = BURST):
        self.marks = marks[0]
        self.width = width
        super().__init__(
            {
                #: From the table decoder, in order.
                "groups": In(stream.Signature(group_layout(width, *marks))),
                "ends": In(stream.Signature(block_end(width))),  #: One per block, in order.
                "newest": In(BEAT_BITS),  #: Number of the last beat that the buffer holds.
                "room": In(1),  #: There is room for bursts.
                #: For the buffer, which holds the newest one. A group is requested before it is known when it
                #: may go.
                "requests": Out(stream.Signature(group_request(width, *marks), always_ready=True)),
                #: One cycle after the group of the held request was let go.
                "issued": Out(stream.Signature(issued_group(width), always_ready=True)),
                "held": Out(BEAT_BITS),  #: Beats of the buffer in use, one cycle late.
                "surplus": Out(1),  #: A register: the last group has its bytes and its block does not end.
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        sync = m.d.sync
        at_beat = self.width.place_bits
        following = self.groups.payload
        head = Signal(following.shape(), reset_less=True)
        head_valid = Signal()
        arrived = Signal()
        may_go = Signal()
        # Registered once more, since the queue lies at the far end of the pipeline.
        room = delayed(m, self.room, 1, name="room", reset=True)
        go = Signal()
        load = Signal()
        ended = self.ends.valid
        # The same as `load` for the buffer, which is wide and far: of registers of its own, the opposites.
        vacant = Signal(init=1)
        may_not_go = Signal(init=1)
        no_room = Signal(init=1)
        requested = vacant | ~(may_not_go | no_room)

        def has_arrived(end: Value) -> Value:
            # Beats around the head are less than 128 apart.
            return ~(self.newest - end[at_beat:])[7]

        m.d.comb += [
            go.eq(may_go & room),
            load.eq(~head_valid | go),
            self.groups.ready.eq(load),
            self.requests.valid.eq(requested),
            self.requests.payload.position.eq(following.start),
            self.requests.payload[self.marks].eq(following[self.marks]),
            self.ends.ready.eq(go & head.last),
        ]
        with m.If(load):
            sync += [
                head.eq(following),
                head_valid.eq(self.groups.valid),
                vacant.eq(~self.groups.valid),
            ]
        # `may_go` is about the head and implies one. The end known is that of the head's block, so after a
        # block's last group it has to be looked at again: a cycle is lost there by blocks of one group.
        following_arrived = has_arrived(following.end)
        head_arrived = has_arrived(head.end)
        following_may_go = (following_arrived & ~following.last) | (ended & ~(go & head.last))
        head_may_go = (head_arrived & ~head.last) | ended
        will_go = Mux(load, self.groups.valid & following_may_go, head_may_go)
        sync += [
            arrived.eq(Mux(load, following_arrived, head_arrived)),
            may_go.eq(will_go),
            may_not_go.eq(~will_go),
            no_room.eq(~self.room),
            self.surplus.eq(head_valid & head.last & arrived & ~ended),
        ]

        self._account(m, go, head)
        return m

    def _account(self, m: Module, go: Value, head: Any) -> None:
        """Describe what was let go, and count the beats of the buffer in use."""
        at_beat = self.width.place_bits
        # Free are the beats before that of `head.start`, and after a block's last group all beats of the
        # block. A block cut short announces data beyond its end: its groups free nothing there.
        oldest = Signal(BEAT_BITS, init=2**BEAT_BITS - 1)
        wrong_end = (head.end != self.ends.payload.position) | self.ends.payload.fault
        # With a reset, `start` is not the buffer's copy of the same bits, which has a few hundred loads.
        p = Pipeline(m, "issued_", control={"valid", "start"})
        p.stage(
            valid=go,
            last=head.last,
            more_lanes=head.more_lanes,
            base=head.base,
            fault=head.fault | (head.last & wrong_end),
            ended=self.ends.valid,
            start=head.start[at_beat:],
            end=self.ends.payload.position[at_beat:],
        )
        beyond = (p.end - p.start)[BEAT_BITS - 1]
        with m.If(p.valid & p.last):
            m.d.sync += oldest.eq(p.end)
        with m.Elif(p.valid & ~(p.ended & beyond)):
            m.d.sync += oldest.eq(p.start)
        m.d.sync += self.held.eq(self.newest - oldest)

        issued = self.issued.payload
        m.d.comb += [
            self.issued.valid.eq(p.valid),
            issued.last.eq(p.last),
            issued.more_lanes.eq(p.more_lanes),
            issued.base.eq(p.base),
            issued.fault.eq(p.fault),
        ]
