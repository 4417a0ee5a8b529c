# SPDX-License-Identifier: BSD-2-Clause
"""Adds the restored payload to frames that are laid out."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from inceptionn.wire import GROUP_LANES

from ..parts.axi import AXIStream
from ..parts.beat import Beat
from ..parts.delay import delayed
from ..parts.elastic_register import ElasticRegister
from ..parts.output_queue import OutputQueue
from ..parts.rotation import rotate_left_bytes
from .receive_layout import frame_part, restored_burst


class PayloadMerge(wiring.Component):
    """Makes one output beat of each part: its header, and the payload rotated to where the header ends.

    A restored frame's last part waits for its tail, since the frame is marked bad on its last beat. It
    loses no cycle if the tail comes one cycle before it.

    Latency: :attr:`LATENCY` cycles from the cycle in which part, burst and tail are there to the output
    queue. Throughput: one beat per cycle.

    Parameters
    ----------
    lanes : :class:`int`
        fp32 lanes of a beat, 8 or 16.

    Members
    -------
    parts : :py:`In(stream.Signature(frame_part(lanes)))`
    tails : :py:`In(stream.Signature(1, always_ready=True))`
        Once per restored frame, in the frames' order: 1 if it came bad or short. With 8 lanes the next may
        come when the frame before has left, its first part at the earliest; with 16 lanes 2 may wait.
    payload : :py:`In(stream.Signature(restored_burst(lanes)))`
        From the Decompressor. A part says whether it takes a burst.
    m_axis : :py:`Out(AXIStream(4 * lanes))`
    faults : :py:`Out(stream.Signature(1, always_ready=True))`
        Once per frame, after its last part was taken: 1 if its block is malformed. Of a frame that passes,
        it means nothing.
    """

    LATENCY = 3

    def __init__(self, *, lanes: int = GROUP_LANES):
        self.width = Beat.of_groups(lanes)
        self.lanes = lanes
        super().__init__(
            {
                "parts": In(stream.Signature(frame_part(lanes))),
                "tails": In(stream.Signature(1, always_ready=True)),
                "payload": In(stream.Signature(restored_burst(lanes))),
                "m_axis": Out(AXIStream(self.width.bytes)),
                "faults": Out(stream.Signature(1, always_ready=True)),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        # When the queue's `room` falls, each stage holds a beat, and one more may enter: `room` here
        # is a cycle old.
        m.submodules.output = output = OutputQueue(slack=self.LATENCY + 1, lanes=self.lanes)
        wiring.connect(m, output.m_axis, wiring.flipped(self.m_axis))
        width = self.width.bytes
        part = self.parts.payload
        tail_known = Signal()
        tail_spoilt = Signal()
        go = Signal()
        room = Signal()
        burst_there = ~part.payload | self.payload.valid
        tail_there = ~part.awaits_tail | tail_known
        m.d.comb += [
            go.eq(self.parts.valid & room & burst_there & tail_there),
            self.parts.ready.eq(go),
            self.payload.ready.eq(go & part.payload),
        ]
        m.d.sync += room.eq(output.room)
        if not self.width.payload_overlaps:
            with m.If(self.tails.valid):
                m.d.sync += [tail_known.eq(1), tail_spoilt.eq(self.tails.payload)]
            with m.If(go & part.awaits_tail):
                m.d.sync += tail_known.eq(0)
        else:
            # As fast as the parts' register: the tail that comes with the last part arrives with it.
            m.submodules.tails = tails = ElasticRegister(1)
            m.d.comb += [
                tails.i.valid.eq(self.tails.valid),
                tails.i.payload.eq(self.tails.payload),
                tails.o.ready.eq(go & part.awaits_tail),
                tail_known.eq(tails.o.valid),
                tail_spoilt.eq(tails.o.payload),
            ]

        # Stages 1 and 2: the payload moves up by `4 * place + 2` bytes and is split at that, and header
        # and payload join.
        rotated1 = Signal(8 * width, reset_less=True)
        header1 = Signal(8 * width, reset_less=True)
        place1 = Signal(range(self.lanes), reset_less=True)
        payload1 = Signal(reset_less=True)
        m.d.sync += [
            rotated1.eq(rotate_left_bytes(self.payload.payload.data.rotate_left(16), part.place[:2], 4)),
            header1.eq(part.header),
            place1.eq(part.place),
            payload1.eq(part.payload),
        ]
        current2 = Signal(8 * width, reset_less=True)
        leftover2 = Signal(8 * width, reset_less=True)
        rotated = rotate_left_bytes(rotated1, place1[2:], 16)
        for i in range(width // 2):
            word = rotated.word_select(i, 16)
            here = Signal(name=f"here{i}")
            later = Signal(name=f"later{i}")
            m.d.comb += [
                here.eq(payload1 & ((place1 << 1) < i)),
                later.eq(payload1 & ((place1 << 1) >= i)),
            ]
            m.d.sync += [
                current2.word_select(i, 16).eq(Mux(here, word, 0) | header1.word_select(i, 16)),
                leftover2.word_select(i, 16).eq(Mux(later, word, 0)),
            ]
        # Stage 3: join with what is left of the burst before.
        carry = Signal(8 * width, reset_less=True)
        first2 = delayed(m, part.first, 2, name="first")
        go2 = delayed(m, go, 2, name="go", reset=True)
        with m.If(go2):
            m.d.sync += carry.eq(leftover2)
        m.d.sync += output.i.payload.tdata.eq(current2 | Mux(first2, 0, carry))

        # The last burst tells whether the block is malformed. The frame's last beat may follow it without
        # a burst.
        malformed = Signal()
        malformed_before = Signal()
        m.d.comb += malformed.eq(Mux(part.payload, self.payload.payload.malformed, malformed_before))
        with m.If(go):
            m.d.sync += malformed_before.eq(malformed)
        bad = Mux(part.restored, tail_spoilt | malformed, part.bad)
        late = delayed(
            m, Cat(part.last, part.last & bad, Mux(part.last, part.ending, 0)), self.LATENCY, name="late"
        )
        m.d.comb += [
            output.i.valid.eq(delayed(m, go, self.LATENCY, name="push", reset=True)),
            output.i.payload.tlast.eq(late[0]),
            output.i.payload.tuser.eq(late[1]),
            output.i.payload.ending.eq(late[2:]),
        ]
        m.d.comb += [
            self.faults.valid.eq(delayed(m, go & part.last, 1, name="fault_valid", reset=True)),
            self.faults.payload.eq(delayed(m, malformed, 1, name="fault")),
        ]
        return m
