# SPDX-License-Identifier: BSD-2-Clause
"""The receive side of the NIC: frames from the wire in, frames for the host out."""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring

from inceptionn.wire import LANE_BYTES

from ..codec.block_splitter import block_beat
from ..frame.front_end import FrontEnd
from ..frame.header_judge import ParsedHeader
from ..parts.elastic_register import ElasticRegister
from ..parts.pipeline import Pipeline
from ..parts.queue import ForwardQueue, PushQueue, StagedQueue
from .engine import Engine
from .receive_assembler import ReceiveAssembler
from .receive_decision import ReceiveDecision, ReceiveOrder, Shim
from .receive_layout import restored_burst, wire_beat


class DecompressionEngine(Engine):
    """Restores the payload of frames that carry a shim and a block (wire format, section 3).

    ::

        s_axis ─► FrontEnd ─┬─► waiting (64 beats) ─────────────────────┐
                            ├─► ReceiveDecision ─► orders (64) ─────────┤
                            └─► blocks (32) ─► Decompressor ─► payload ─┴─► ReceiveAssembler ─► m_axis

    Cut-through: a frame is held until a header check fails, its shim has arrived, or it ends. There is no
    packet buffer: the three queues cover the latency of a decision, and hold the next block's tag table.

    Throughput: one output beat per cycle while input is there. Latency of an idle engine, first beat
    to first beat: at most 24 cycles for a frame that passes, at most 56 plus the tag table's beats for
    one that is restored. With 16 lanes the same, in beats twice as wide.
    """

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        shape = self.shape
        m.submodules.front = front = FrontEnd(shape, transmit=False)
        m.submodules.decision = decision = ReceiveDecision(shape)
        m.submodules.decompressor = decompressor = shape.codec.decompressor(shape)
        m.submodules.assembler = assembler = ReceiveAssembler(shape)
        # What can still come when `room` has fallen: the pipeline from the input to the queue, and two beats.
        slack = front.delay + ReceiveDecision.LATENCY + 7
        m.submodules.waiting = waiting = StagedQueue(wire_beat(shape), 64, slack, in_ram={"tdata"})
        m.submodules.orders = orders = PushQueue(ReceiveOrder, 64, slack)
        m.submodules.blocks = blocks = ForwardQueue(block_beat(shape), 32, slack)
        # After the Decompressor's queue, since the assembler's `ready` depends on all of its inputs.
        m.submodules.payload_register = payload = ElasticRegister(restored_burst(shape), in_ram={"data"})
        wiring.connect(m, wiring.flipped(self.s_axis), front.s_axis)
        wiring.connect(m, front.late_beats, decision.beats)
        wiring.connect(m, decision.orders, orders.i)
        wiring.connect(m, blocks.o, decompressor.beats)
        wiring.connect(m, orders.o, assembler.orders)
        wiring.connect(m, waiting.o, assembler.beats)
        wiring.connect(m, payload.o, assembler.payload)
        wiring.connect(m, assembler.reports, wiring.flipped(self.reports))
        wiring.connect(m, assembler.m_axis, wiring.flipped(self.m_axis))
        header = Signal(ParsedHeader, reset_less=True)
        with m.If(front.headers.valid):
            m.d.sync += header.eq(front.headers.payload.header)
        m.d.comb += [
            front.config.eq(self.config),
            *([front.bf16_tos.eq(self.bf16_tos)] if self.shape.bf16 else []),
            front.room.eq(waiting.room & orders.room & blocks.room),
            decision.header.eq(header),
            decision.front.eq(front.front),
            blocks.o_room.eq(decompressor.room),
            payload.i.valid.eq(decompressor.bursts.valid),
            payload.i.payload.data.eq(decompressor.bursts.payload.lanes),
            payload.i.payload.malformed.eq(decompressor.bursts.payload.fault),
            decompressor.bursts.ready.eq(payload.i.ready),
        ]
        self._wait(m, front, waiting)
        self._select_blocks(m, front, decision, blocks)
        return m

    def _wait(self, m: Module, front: FrontEnd, waiting: PushQueue) -> None:
        """Give the delay queue all beats; with the last, whether the frame has the length that IP states."""
        beat, item = front.late_beats.payload, waiting.i.payload
        # The place of the last byte by IP's length, as beat and byte: compared with this beat's number and
        # count of bytes in one comparison, without an adder.
        place_bits = self.shape.place_bits
        number = Signal(17 - place_bits)
        last_byte = Signal(17)
        with m.If(front.headers.valid):
            m.d.sync += last_byte.eq(front.headers.payload.header.frame_length - 1)
        with m.If(front.late_beats.valid):
            m.d.sync += number.eq(Mux(beat.last, 0, number + ~number[-1]))
        m.d.sync += [
            waiting.i.valid.eq(front.late_beats.valid),
            item.tdata.eq(beat.data),
            item.last.eq(beat.last),
            item.bad.eq(beat.bad),
            item.short.eq(
                Cat(beat.count, number) <= Cat(last_byte[:place_bits], Const(0, 1), last_byte[place_bits:])
            ),
            item.ending.eq(beat.count),
        ]

    def _select_blocks(
        self, m: Module, front: FrontEnd, decision: ReceiveDecision, blocks: PushQueue
    ) -> None:
        """Give the queue of blocks the bursts of frames that are restored, with their shims' contents.

        The order follows the shim by two cycles; the block's first burst follows the shim by at least one.
        The bursts are delayed by one more, and by a register in front of the queue. An empty block has a
        byte, which is not a valid block either.
        """
        wanted = Signal()  # until the block's last burst
        shim = Signal(Shim, reset_less=True)
        restoring = decision.orders.valid & decision.orders.payload.restore
        burst, item = front.bursts.payload, blocks.i.payload
        p = Pipeline(m, "burst_", control={"valid"})
        p.stage(valid=front.bursts.valid, last=burst.last, count=burst.count, data=burst.data)
        with m.If(restoring):
            m.d.sync += shim.eq(decision.shim)
        m.d.sync += [
            blocks.i.valid.eq(p.valid & (wanted | restoring)),
            item.last.eq(p.last),
            item.keep.eq(Cat(p.count > i for i in range(self.shape.bytes))),
            wanted.eq((wanted | restoring) & ~(p.valid & p.last)),
        ]
        p.stage()
        m.d.comb += [
            item.data.eq(p.data),
            item.lanes.eq(shim.length // LANE_BYTES),
            item.base.eq(shim.base),
        ]
