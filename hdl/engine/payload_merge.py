# SPDX-License-Identifier: BSD-2-Clause
"""Adds the restored payload to frames that are laid out."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ..parts.axi import AXIStream
from ..parts.delay import copies
from ..parts.elastic_register import ElasticRegister
from ..parts.output_queue import OutputQueue
from ..parts.pipeline import Pipeline
from ..parts.rotation import rotate_left_bytes
from ..parts.width import BURST, Width
from .receive_layout import frame_part, restored_burst


class PayloadMerge(wiring.Component):
    """Makes one output beat of each part: its header, and the payload rotated to where the header ends.

    A restored frame's last part waits for its tail, since the frame is marked bad on its last beat. It
    loses no cycle if the tail comes one cycle before it.

    Latency: :attr:`LATENCY` cycles from the cycle in which part, burst and tail are there to the output
    queue. Throughput: one beat per cycle.
    """

    LATENCY = 3

    def __init__(self, width: Width = BURST):
        self.width = width
        super().__init__(
            {
                "parts": In(stream.Signature(frame_part(width))),  #: In the frames' order.
                #: Once per restored frame, in the frames' order: 1 if it was bad or short. With 8 lanes the
                #: next may follow once the previous frame has left, its first part at the earliest; with 16
                #: lanes 2 may wait.
                "tails": In(stream.Signature(1, always_ready=True)),
                #: From the Decompressor. A part says whether it takes a burst.
                "payload": In(stream.Signature(restored_burst(width))),
                "m_axis": Out(AXIStream(self.width.bytes)),  #: The frames.
                #: Once per frame, after its last part was taken: 1 if its block is malformed. Of a frame that
                #: passes, it means nothing.
                "faults": Out(stream.Signature(1, always_ready=True)),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        # When the queue's `room` falls, each stage holds a beat, and one more may enter: `room` here
        # is a cycle old.
        m.submodules.output = output = OutputQueue(self.LATENCY + 1, self.width)
        wiring.connect(m, output.m_axis, wiring.flipped(self.m_axis))
        part = self.parts.payload
        go = Signal()
        room = Signal()
        used = go & part.awaits_tail
        tail_known, tail_spoilt = self._tail(m, used)
        burst_there = ~part.payload | self.payload.valid
        tail_there = ~part.awaits_tail | tail_known
        # Of parts and payload, neither's `ready` waits for its own `valid`: a gate less before either.
        m.d.comb += [
            self.parts.ready.eq(room & burst_there & tail_there),
            self.payload.ready.eq(room & self.parts.valid & part.payload & tail_there),
            go.eq(self.parts.valid & self.parts.ready),
        ]
        m.d.sync += room.eq(output.room)

        p = Pipeline(m, control={"go"})
        p.let(
            go=go,
            first=part.first,
            last=part.last,
            ending=Mux(part.last, part.ending, 0),
            restored=part.restored,
            part_bad=part.bad,
            with_burst=part.payload,
            spoilt=self.payload.payload.malformed,
            tail_spoilt=tail_spoilt,
        )

        # Stages 1 and 2: the payload moves up by `4 * place + 2` bytes and is split at that, and header
        # and payload join. Where it is split, each word has a bit of its own.
        words = range(self.width.words)
        far = copies(m, part.place[2:], 4, name="far")
        p.stage(
            rotated=rotate_left_bytes(self.payload.payload.data.rotate_left(16), part.place[:2], 4),
            here=Cat(part.payload & ((part.place << 1) < i) for i in words),
            later=Cat(part.payload & ((part.place << 1) >= i) for i in words),
            header=part.header,
        )
        # The last burst tells whether the block is malformed. The frame's last beat may follow it without
        # a burst.
        malformed = Signal()
        malformed_before = Signal()
        with m.If(p.go):
            m.d.sync += malformed_before.eq(malformed)
        m.d.comb += [
            malformed.eq(Mux(p.with_burst, p.spoilt, malformed_before)),
            self.faults.valid.eq(p.go & p.last),
            self.faults.payload.eq(malformed),
        ]
        p.let(bad=p.last & Mux(p.restored, p.tail_spoilt | malformed, p.part_bad))
        rotated = [rotate_left_bytes(p.rotated, digit, 16) for digit in far]
        share = len(words) // len(far)
        payload = [rotated[i // share].word_select(i, 16) for i in words]
        p.stage(
            current=Cat(Mux(p.here[i], payload[i], 0) | p.header.word_select(i, 16) for i in words),
            leftover=Cat(Mux(p.later[i], payload[i], 0) for i in words),
        )

        # Stage 3: join with the rest of the previous burst.
        carry = Signal(self.width.bits, reset_less=True)
        with m.If(p.go):
            m.d.sync += carry.eq(p.leftover)
        m.d.sync += output.i.payload.tdata.eq(p.current | Mux(p.first, 0, carry))
        p.stage()
        m.d.comb += [
            output.i.valid.eq(p.go),
            output.i.payload.tlast.eq(p.last),
            output.i.payload.tuser.eq(p.bad),
            output.i.payload.ending.eq(p.ending),
        ]
        return m

    def _tail(self, m: Module, used: Value) -> tuple[Signal, Signal]:
        """Tell whether the oldest tail is there, and its frame was bad or short; ``used`` drops the tail."""
        tail_known = Signal()
        tail_spoilt = Signal()
        if not self.width.payload_overlaps:
            # A restored frame has two parts at least, so the tail may be dropped a cycle late.
            drop = Signal()
            m.d.sync += drop.eq(used)
            with m.If(self.tails.valid):
                m.d.sync += [tail_known.eq(1), tail_spoilt.eq(self.tails.payload)]
            with m.Elif(drop):
                m.d.sync += tail_known.eq(0)
        else:
            # As fast as the parts' register: the tail that comes with the last part arrives with it. At most
            # two wait, so it is always ready. A `ready` that nothing reads is an undriven wire in Verilog.
            m.submodules.tails = tails = ElasticRegister(1)
            m.d.comb += [
                tails.i.valid.eq(self.tails.valid & tails.i.ready),
                tails.i.payload.eq(self.tails.payload),
                tails.o.ready.eq(used),
                tail_known.eq(tails.o.valid),
                tail_spoilt.eq(tails.o.payload),
            ]
        return tail_known, tail_spoilt
