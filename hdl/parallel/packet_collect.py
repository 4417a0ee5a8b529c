# SPDX-License-Identifier: BSD-2-Clause
"""From several engines back to one wide stream, in the frames' original order."""

from typing import Any

from amaranth.hdl import Array, Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..parts.axi import AXIStream, keep_of
from ..parts.elastic_register import ElasticRegister
from ..parts.memory import BlockRam
from ..parts.pipeline import Pipeline
from ..parts.queue import PushQueue
from ..parts.width import BURST, Width
from .collect_queue import CollectQueue, piece_layout
from .dispatch_queue import check_engines
from .packet_dispatch import MOST_FRAMES, dispatched


class PacketCollect(wiring.Component):
    """Merges the frames of several engines into one stream, in the order of their dispatch.

    An engine's frame waits in a :class:`CollectQueue` until it is whole and its turn has come. It then leaves
    without a gap, unless it has more than 256 words. Of a frame that all engines saw, the owner's copy is
    kept.

    Throughput: one word per cycle, one frame per cycle. Latency, a frame's last burst in to its first word
    out: 10 cycles.

    Parameters
    ----------
    engines : :class:`int`
        Number of engines and bursts in a word, 2 or 4.
    width : :class:`Width`
        Of an engine.
    """

    def __init__(self, engines: int, width: Width = BURST):
        check_engines(engines)
        burst = width.bytes
        self.engines = engines
        self.width = width
        super().__init__(
            {
                "s_axis": In(AXIStream(burst)).array(engines),  #: From the engines.
                #: The kept frames, in the order of their dispatch.
                "m_axis": Out(AXIStream(engines * burst)),
                #: From the dispatcher; at most 64 frames of an engine may be in flight.
                "frames": In(stream.Signature(dispatched(engines), always_ready=True)),
                #: Number of an engine's frames that left in this cycle.
                "collected": Out(range(3)).array(engines),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        numbers = range(self.engines)
        word_bits = self.engines * self.width.bits
        frame = self.frames.payload
        m.submodules.order = order = PushQueue(numbers, MOST_FRAMES * self.engines, 0)
        m.d.comb += [order.i.valid.eq(self.frames.valid), order.i.payload.eq(frame.owner)]
        queues = []
        for i in numbers:
            queue = CollectQueue(self.engines, self.width)
            kept = PushQueue(1, MOST_FRAMES, 0)
            m.submodules[f"queue{i}"], m.submodules[f"kept{i}"] = queue, kept
            wiring.connect(m, wiring.flipped(self.s_axis[i]), queue.s_axis)
            m.d.comb += [
                kept.i.valid.eq(self.frames.valid & frame.targets[i]),
                kept.i.payload.eq(frame.owner == i),
                kept.o.ready.eq(queue.ended),
                queue.keep.eq(kept.o.payload),
            ]
            taken = queue.pieces.ready & queue.pieces.payload.end
            m.d.sync += self.collected[i].eq((queue.ended & ~kept.o.payload) + taken)
            queues.append(queue)

        # The next piece in the order of the frames, one ahead of the one that is read.
        job_shape = data.StructLayout({"engine": numbers, "piece": piece_layout(self.engines, self.width)})
        m.submodules.job = job = ElasticRegister(job_shape)
        owner = order.o.payload
        offered = Signal()
        m.d.comb += [
            offered.eq(order.o.valid & Cat(queue.pieces.valid for queue in queues).bit_select(owner, 1)),
            job.i.valid.eq(offered),
            job.i.payload.engine.eq(owner),
            job.i.payload.piece.eq(Array(queue.pieces.payload.as_value() for queue in queues)[owner]),
            order.o.ready.eq(offered & job.i.ready & job.i.payload.piece.end),
        ]

        layout = data.StructLayout({"data": word_bits, "last": 1, "bad": 1, "ending": range(word_bits // 8)})
        m.submodules.output = output = PushQueue(layout, 32, BlockRam.LATENCY + 4)
        left = Signal(range(CollectQueue.MOST_WORDS))  # words of the piece after the next one, once begun
        begun = Signal()
        go = Signal()
        final = Signal()
        m.d.comb += [
            go.eq(job.o.valid & output.room),
            final.eq(Mux(begun, left == 0, job.o.payload.piece.words == 1)),
            job.o.ready.eq(go & final),
        ]
        with m.If(go):
            m.d.sync += [
                begun.eq(~final),
                left.eq(Mux(begun, left - 1, job.o.payload.piece.words - 2)),
            ]
        for i, queue in enumerate(queues):
            m.d.comb += [
                queue.pieces.ready.eq(offered & job.i.ready & (owner == i)),
                queue.step.eq(go & (job.o.payload.engine == i)),
            ]
        piece = job.o.payload.piece
        p = Pipeline(m, control={"go"})
        p.let(
            go=go,
            engine=job.o.payload.engine,
            last=final & piece.end,
            bad=piece.bad,
            ending=piece.ending,
        )
        p.until(BlockRam.LATENCY)
        m.d.sync += [
            output.i.valid.eq(p.go),
            output.i.payload.data.eq(Cat(queue.data for queue in queues).word_select(p.engine, word_bits)),
            output.i.payload.last.eq(p.last),
            output.i.payload.bad.eq(p.last & p.bad),
            output.i.payload.ending.eq(p.ending),
        ]
        self._offer(m, output)
        return m

    def _offer(self, m: Module, output: PushQueue) -> None:
        """Offer the queue's beats, with their ``tkeep``."""
        beat = output.o.payload
        m.d.comb += [
            self.m_axis.tvalid.eq(output.o.valid),
            self.m_axis.tdata.eq(beat.data),
            self.m_axis.tlast.eq(beat.last),
            self.m_axis.tuser.eq(beat.bad),
            self.m_axis.tkeep.eq(keep_of(beat.last, beat.ending)),
            output.o.ready.eq(self.m_axis.tready),
        ]
