# SPDX-License-Identifier: BSD-2-Clause
"""The decision on each frame in transmit: it leaves unchanged, or as shim and block."""

from typing import Any

from amaranth.hdl import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ..codec.shape import USUAL, EngineShape
from ..control.counters import frame_report
from ..parts.queue import ElasticQueue, PushQueue
from ..parts.width import Width
from .frame_recorder import FrameRecord
from .transmit_judging import JudgedFrame, TransmitJudging
from .transmit_resolving import BlockSums, TransmitResolving, frame_order


class TransmitDecision(wiring.Component):
    """Joins what is known of a frame from its headers, its end and its block, and decides.

    ::

        records ─────► queue ─┬─► TransmitJudging ─► queue ─┬─► TransmitResolving ─┬─► queue ─► orders
        header_sums ─► queue ─┘                             │                      └─► reports
        statistics ──► two queues, sums and counts ─────────┘

    Judging takes four cycles a frame, or two with 16 lanes (:class:`TransmitJudging`). Resolving waits for
    the block's statistics if there is a block, and takes one frame per cycle. From a block's statistics to
    its order, if nothing else waits, it takes at most 5 cycles more than :attr:`LATENCY`.
    """

    LATENCY = 4
    """Cycles from where judged frame and statistics meet to the queue of orders. Each queue adds two."""

    def __init__(self, shape: EngineShape = USUAL):
        self.shape = shape
        self.pace = self.pace_of(self.shape)
        super().__init__(
            {
                #: One per frame or piece, in order.
                "records": In(stream.Signature(FrameRecord, always_ready=True)),
                #: One per whole record with verdict 0: sum of its TCP or UDP header, little-endian words.
                "header_sums": In(stream.Signature(16, always_ready=True)),
                #: One per record with verdict 0, in order.
                "statistics": In(stream.Signature(self.shape.codec.statistics, always_ready=True)),
                "room": Out(1),  #: Of all three; 8 more records may follow after it has fallen.
                "orders": Out(stream.Signature(frame_order(shape))),  #: To the assembler.
                "reports": Out(stream.Signature(frame_report(shape), always_ready=True)),  #: To the counters.
            }
        )

    @staticmethod
    def pace_of(width: Width) -> int:
        """Count the fewest cycles per frame, for :class:`FrameInput`."""
        return TransmitJudging.pace_of(width)

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.judging = judging = TransmitJudging(self.shape)
        m.submodules.resolving = resolving = TransmitResolving(self.shape)
        # Slack. Records and header sums: the 8 that may follow after `room` has fallen, and the cycle of its
        # register, rounded up. Statistics: a block takes about 40 cycles from the engine's input to here, and
        # there is at most one every four cycles; with 16 lanes it takes about 50, with one every two cycles.
        # Judged: the frame in its four steps. Orders: one in each of three stages of the resolving.
        m.submodules.records = records = PushQueue(FrameRecord, 32, 12)
        m.submodules.header_sums = header_sums = ElasticQueue(16, 32, 12)
        # Statistics of the planes codec are wide: half of the places, still enough for every fourth cycle.
        many = self.shape.codec.spec.counts_lanes or self.shape.headers_in_one_beat
        places, slack = (64, 32) if many else (32, 16)
        m.submodules.sums = sums = ElasticQueue(BlockSums, places, slack)
        m.submodules.counts = counts = ElasticQueue(resolving.counts.payload.shape(), places, slack)
        m.submodules.judged = judged = PushQueue(JudgedFrame, 16, 4)
        late = {"total_length", "ip_checksum", "checksum", "original_length", "base"}
        m.submodules.orders = orders = ElasticQueue(frame_order(self.shape), 16, 6, in_ram=late)
        wiring.connect(m, wiring.flipped(self.records), records.i)
        wiring.connect(m, wiring.flipped(self.header_sums), header_sums.i)
        wiring.connect(m, records.o, judging.records)
        wiring.connect(m, header_sums.o, judging.header_sums)
        wiring.connect(m, judging.judged, judged.i)
        wiring.connect(m, judged.o, resolving.judged)
        wiring.connect(m, sums.o, resolving.sums)
        wiring.connect(m, counts.o, resolving.counts)
        wiring.connect(m, resolving.orders, orders.i)
        wiring.connect(m, orders.o, wiring.flipped(self.orders))
        wiring.connect(m, resolving.reports, wiring.flipped(self.reports))
        block = self.statistics.payload
        m.d.comb += [
            judging.judged_room.eq(judged.room),
            resolving.orders_room.eq(orders.room),
            sums.i.valid.eq(self.statistics.valid),
            counts.i.valid.eq(self.statistics.valid),
            counts.i.payload.eq(block.counts),
            *(sums.i.payload[name].eq(block[name]) for name, _ in BlockSums.as_shape()),
        ]
        m.d.sync += self.room.eq(records.room & header_sums.room & sums.room & counts.room & judging.ready)
        return m
