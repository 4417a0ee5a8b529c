# SPDX-License-Identifier: BSD-2-Clause
"""Blocks in, bursts of lanes out: what the decompressors of both codecs share."""

from typing import Any

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..parts.pipeline import Pipeline
from ..parts.queue import DirectQueue, PushQueue
from ..parts.width import BURST, Width
from .block_splitter import BlockSplitter, block_beat, block_end
from .group_issue import GroupIssue
from .ring_window import RingWindow
from .table_decoder import TableDecoder

_LANES_PER_GATE = 4


def decoded_burst(width: Width = BURST) -> data.StructLayout:
    """Return the layout of a burst of a restored block."""
    return data.StructLayout(
        {
            "lanes": width.bits,
            # Which lanes exist; all but in the last burst, where the upper ones may be absent.
            "present": width.lanes,
            "last": 1,
            "fault": 1,  # with `last`: the block is malformed
        }
    )


class Decompressor(wiring.Component):
    """Restores blocks to bursts of fp32 lanes, or with ``width.bf16`` of pairs of bf16 lanes.

    ::

        beats ─► BlockSplitter ─┬─ table ─► decoder ─ groups ─┐
                                ├─ ends ──► queue ────────────┴─► GroupIssue
                                │                                     │ requests
                                └─ data ──► buffer ◄──────────────────┘
                                              └─► unit ─► queue ─► bursts

    The base of :class:`.paper.decompressor.Decompressor` and :class:`.planes.decompressor.Decompressor`,
    which name their decoder, buffer and unit.

    A block is its table, then its data. It gives exactly as many bursts as hold *n* lanes, the count
    announced with the block's first beat.

    A block is *malformed* if it ends inside its table, has too few or too many data bytes, or breaks a rule
    of its codec. It still yields its announced number of bursts. Their contents are arbitrary from the first
    fault on, and the last one has ``fault``. The next block is not affected. A block with an *n* of 0 or
    above 2304 is malformed and yields one full burst.

    Throughput: one burst per cycle while input is there, also from one block to the next, whose table is
    taken in while this block's data are decoded. A block of one burst takes two cycles.
    Latency to the first burst: at best :attr:`latency` cycles from the block's first beat, and 8 fewer from
    the beat with its first group's last data byte. Decoding starts before the block's end has arrived; only
    the last burst waits for it.
    """

    DECODER: type[TableDecoder]
    BUFFER: Any
    """A :class:`RingWindow`."""
    UNIT: Any
    """Turns what the buffer cuts out into a burst, ``LATENCY`` cycles later."""
    WORD_LANES: int
    """Lanes of a 16-bit word of the table."""

    def __init__(self, width: Width = BURST):
        self.width = width
        self.latency = self.latency_of(self.width)
        super().__init__(
            {
                "beats": In(stream.Signature(block_beat(width), always_ready=True)),  #: Blocks.
                #: Beats are accepted: a register, low only when a buffer fills up. After it falls, at most
                #: one more may follow.
                "room": Out(1),
                #: The lanes, block by block, from LUT RAM: the consumer registers them.
                "bursts": Out(stream.Signature(decoded_burst(width))),
            }
        )

    @classmethod
    def latency_of(cls, width: Width) -> int:
        """Count the cycles from a block's first beat to its first burst, at best."""
        return int(cls.DECODER.latency_of(width) + cls.BUFFER.latency_of(width) + cls.UNIT.LATENCY + 4)

    def elaborate(self, platform: Any) -> Module:
        # Push flow from end to end. The splitter fills two buffers, tables and data. The decoder turns marks
        # (tags or codes) into groups with places. A group is issued once its bytes are in the buffer and the
        # output queue has room. Past that point nothing stalls.
        m = Module()
        m.submodules.splitter = splitter = BlockSplitter(self.WORD_LANES, self.width)
        m.submodules.decoder = decoder = self.DECODER(self.width)
        m.submodules.buffer = buffer = self.BUFFER(self.width)
        m.submodules.unit = unit = self.UNIT(self.width)
        m.submodules.ends = ends = PushQueue(block_end(self.width), 32, slack=13)
        marks = decoder.MARKS, decoder.mark_bits
        m.submodules.issue = issue = GroupIssue(marks, self.width)
        slack = buffer.latency + unit.LATENCY + 4
        # Faults are joined on both sides of the queue: each has a gate on its way in, and one on its way out.
        queued = {
            "lanes": self.width.bits,
            "present": self.width.lanes,
            "last": 1,
            "faults": 1 + self.width.lanes // _LANES_PER_GATE,
        }
        m.submodules.output = output = DirectQueue(data.StructLayout(queued), 32, slack)

        wiring.connect(m, wiring.flipped(self.beats), splitter.beats)
        wiring.connect(m, splitter.table, decoder.beats)
        wiring.connect(m, splitter.data, buffer.beats)
        wiring.connect(m, splitter.ends, ends.i)
        wiring.connect(m, ends.o, issue.ends)
        wiring.connect(m, decoder.groups, issue.groups)
        wiring.connect(m, issue.requests, buffer.requests)
        # Up to seven beats are in flight when `room` falls, up to seven more after a surplus, and the
        # buffers overwrite their next two free slots.
        m.d.comb += [
            self.room.eq(splitter.room),
            splitter.newest.eq(buffer.newest),
            splitter.following.eq(buffer.following),
            splitter.surplus.eq(issue.surplus),
            splitter.o_room.eq(
                (issue.held < RingWindow.DEPTH - 18) & (decoder.stored < TableDecoder.DEPTH - 10) & ends.room
            ),
            issue.newest.eq(buffer.newest),
            issue.room.eq(output.room),
            self.bursts.valid.eq(output.o.valid),
            self.bursts.payload.lanes.eq(output.o.payload.lanes),
            self.bursts.payload.present.eq(output.o.payload.present),
            self.bursts.payload.last.eq(output.o.payload.last),
            self.bursts.payload.fault.eq(output.o.payload.last & output.o.payload.faults.any()),
            output.o.ready.eq(self.bursts.ready),
        ]
        self._finish(m, issue, buffer, unit, output)
        return m

    def _finish(
        self,
        m: Module,
        issue: GroupIssue,
        buffer: RingWindow,
        unit: Any,
        output: PushQueue,
    ) -> None:
        """Decompress what the buffer cuts out, and gather a block's faults for its last burst."""
        issued = issue.issued.payload
        p = Pipeline(m, control={"valid"})
        p.let(
            valid=issue.issued.valid,
            last=issued.last,
            more_lanes=issued.more_lanes,
            base=issued.base,
            fault=issued.fault,
        )
        cut = buffer.latency - 1  # the request is one cycle old
        p.until(cut - 1)
        self._decode(m, p, buffer, unit)
        p.until(cut + unit.LATENCY - 1)
        p.stage(present=Cat(~p.last | (p.more_lanes >= lane) for lane in range(self.width.lanes)))
        last = p.last
        earlier_fault = Signal()
        faults = output.i.payload.faults
        with m.If(p.valid):
            m.d.sync += earlier_fault.eq(faults.any() & ~last)
        m.d.comb += [
            output.i.valid.eq(p.valid),
            output.i.payload.lanes.eq(unit.burst),
            output.i.payload.present.eq(p.present),
            output.i.payload.last.eq(last),
            faults.eq(
                Cat(
                    p.fault | earlier_fault,
                    *(
                        unit.impossible[lane : lane + _LANES_PER_GATE].any()
                        for lane in range(0, self.width.lanes, _LANES_PER_GATE)
                    ),
                )
            ),
        ]

    def _decode(self, m: Module, p: Pipeline, buffer: Any, unit: Any) -> None:
        """Connect buffer and unit in the next stage of ``p``, in which the issued group leaves the buffer."""
        raise NotImplementedError
