# SPDX-License-Identifier: BSD-2-Clause
"""How each frame leaves the compression engine: as it came, or as shim and block."""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from inceptionn.wire import (
    FLOW_TABLE_SIZE,
    GROUP_LANES,
    PROTOCOL_TCP,
    PROTOCOL_UDP,
    SHIM_BYTES,
    SHIM_MAGIC,
    Verdict,
)

from ..codec.codecs import PAPER, codec_of
from ..control.counters import frame_report
from ..frame.flow_table import FlowKey, FlowTable
from ..parts.beat import Beat
from ..parts.checksum import add16, canonical16, swap16
from ..parts.delay import delayed
from ..parts.queue import PushQueue

_IP_BYTES = 20


class FrameRecord(data.Struct):
    """A whole frame in the raw ring, or a piece of one that is too long to be held whole."""

    verdict: 5  # of the headers; 0: a block was made of the payload
    partial: 1  # a piece, the frame goes on; nothing else but `beats` counts then
    bad: 1
    overlong: 1  # pieces went before
    short: 1  # shorter than its IP total length says
    tcp: 1
    vlan: 1
    payload_at: 7
    total_length: 16
    payload_length: 16
    ip_checksum: 16
    checksum: 16
    key: FlowKey
    index: range(FLOW_TABLE_SIZE)
    phase: 2
    b: 8
    frame_bytes: 17
    beats: 10


def frame_order(lanes: int = GROUP_LANES) -> data.StructLayout:
    """What the assembler has to do for a frame (or a piece of one)."""
    return data.StructLayout(
        {
            "compressed": 1,
            "drop": 1,  # there is a block and it is not wanted
            "end": 1,  # `tlast` behind the last beat
            "bad": 1,
            "beats": 10,  # in the raw ring
            "ending": range(Beat(lanes).bytes),  # bytes of the last raw beat, modulo its width
            "vlan": 1,
            "tcp": 1,
            "payload_at": 7,
            "total_length": 16,  # the rest: as on the wire
            "ip_checksum": 16,
            "checksum": 16,
            "original_length": 16,
            "b": 8,
        }
    )


class _Judged(data.Struct):
    """A record behind the flow table, and the part of the wire form's checksum that needs no block."""

    verdict: 5
    candidate: 1
    record: FrameRecord
    static_sum: 20


class TransmitDecision(wiring.Component):
    """Joins what is known of a frame from its headers, its end and its block, and decides.

    Two steps with a queue between them. *Judging* takes four cycles a frame: flow-table look-up and
    update, verdicts that need no block, and the sum of the wire form's fixed words; with 16 lanes two where
    the headers object and nothing is learnt, since such a frame may be one beat long. *Settling* waits
    for the block's statistics where there is a block, and takes one frame per cycle, :attr:`LATENCY`
    cycles from the statistics to the order: sizes compared, checksums and lengths of the wire form (RFC
    1624), and the test whether the wire form would pass the end host's checksum as it is.

    Parameters
    ----------
    lanes : :class:`int`
        fp32 lanes of a beat, 8 or 16.
    codec : :class:`str`
        Name of the lane codec (:data:`inceptionn.hdl.codec.codecs.CODECS`).

    Members
    -------
    records : :py:`In(stream.Signature(FrameRecord, always_ready=True))`
        One per frame or piece, in order.
    header_sums : :py:`In(stream.Signature(16, always_ready=True))`
        One per frame that has a whole record: sum of its TCP or UDP header, little-endian words.
    statistics : :py:`In(stream.Signature(Statistics, always_ready=True))`
        One per record with verdict 0, in order.
    room : :py:`Out(1)`
        Of all three; 8 more records may follow after it has fallen.
    orders : :py:`Out(stream.Signature(frame_order(lanes)))`
        To the assembler.
    reports : :py:`Out(stream.Signature(frame_report(codec), always_ready=True))`
        To the counters.
    """

    LATENCY = 4
    """Cycles from where judged frame and statistics meet to the queue of orders. Each queue adds two."""

    def __init__(self, *, lanes: int = GROUP_LANES, codec: str = PAPER):
        self.codec = codec_of(codec)
        self.width = Beat.of_groups(lanes)
        self.pace = self.pace_of(self.width)
        self.lanes = lanes
        super().__init__(
            {
                "records": In(stream.Signature(FrameRecord, always_ready=True)),
                "header_sums": In(stream.Signature(16, always_ready=True)),
                "statistics": In(stream.Signature(self.codec.statistics, always_ready=True)),
                "room": Out(1),
                "orders": Out(stream.Signature(frame_order(lanes))),
                "reports": Out(stream.Signature(frame_report(codec), always_ready=True)),
            }
        )

    @staticmethod
    def pace_of(width: Beat) -> int:
        """Fewest cycles per frame, for :class:`FrameInput`."""
        return 2 if width.headers_in_one_beat else 4

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        # Slack. Records and header sums: what `room` promises (8) and the cycle of its own register, rounded
        # up. Statistics: some 40 cycles from the engine's input to here, at most every fourth with a block;
        # with 16 lanes every second of some 50.
        # Judged: the frame in its four steps. Orders: one in each of the settling's three stages.
        m.submodules.records = records = PushQueue(FrameRecord, 32, 12)
        m.submodules.header_sums = header_sums = PushQueue(16, 32, 12)
        # The planes codec's are wide: half of the places, which is still enough for every fourth cycle.
        many = self.codec.classes_are_lanes or self.width.headers_in_one_beat
        places, slack = (64, 32) if many else (32, 16)
        m.submodules.statistics = statistics = PushQueue(self.codec.statistics, places, slack)
        m.submodules.judged = judged = PushQueue(_Judged, 16, 4)
        m.submodules.orders = orders = PushQueue(frame_order(self.lanes), 16, 6, elastic=True)
        wiring.connect(m, wiring.flipped(self.records), records.i)
        wiring.connect(m, wiring.flipped(self.header_sums), header_sums.i)
        wiring.connect(m, wiring.flipped(self.statistics), statistics.i)
        wiring.connect(m, orders.o, wiring.flipped(self.orders))
        m.submodules.flows = flows = FlowTable()
        m.d.sync += self.room.eq(records.room & header_sums.room & statistics.room & flows.ready)
        self._judge(m, records, header_sums, flows, judged)
        self._settle(m, judged, statistics, orders)
        return m

    def _judge(
        self, m: Module, records: PushQueue, header_sums: PushQueue, flows: FlowTable, judged: PushQueue
    ) -> None:
        """Four cycles: present the key, two cycles of RAM, and in the last the verdict."""
        record = records.o.payload
        sequenced = record.verdict == Verdict.SYN
        step = Signal(2)
        start = Signal()
        m.d.comb += [
            start.eq(records.o.valid & judged.room & (record.partial | header_sums.o.valid)),
            flows.index.eq(record.index),
            flows.key.eq(record.key),
        ]
        final = Signal()  # step == 3
        with m.If((step != 0) | start):
            m.d.sync += step.eq(step + 1)
        if self.pace == 4:
            m.d.sync += final.eq(step == 2)
        else:
            # Neither the flow table nor the wire form is asked for: the verdict follows at once.
            brief = start & (step == 0) & ~record.partial & (record.verdict != 0) & ~sequenced
            m.d.sync += final.eq((step == 2) | brief)
            with m.If(brief):
                m.d.sync += step.eq(3)

        # The fixed words: pseudo header, TCP or UDP header, shim; a binary tree beside the steps.
        source = Signal(17, reset_less=True)
        destination = Signal(17, reset_less=True)
        lengths = Signal(18, reset_less=True)
        shim = Signal(17, reset_less=True)
        addresses = Signal(18, reset_less=True)
        others = Signal(19, reset_less=True)
        static_sum = Signal(20, reset_less=True)
        less = Mux(record.tcp, _IP_BYTES - PROTOCOL_TCP, _IP_BYTES - PROTOCOL_UDP)
        version = Cat(record.b, Const(self.codec.shim_version, 8))
        header_sum = Signal(16, reset_less=True)
        m.d.sync += [
            source.eq(record.key.source[:16] + record.key.source[16:]),
            destination.eq(record.key.destination[:16] + record.key.destination[16:]),
            # Pseudo header: protocol and original L4 length (total length - 20); shim: original payload
            # length.
            lengths.eq((record.total_length - less)[:16] + record.payload_length),
            shim.eq(SHIM_MAGIC + version),
            header_sum.eq(swap16(header_sums.o.payload)),
            addresses.eq(source + destination),
            others.eq(lengths + shim + header_sum),
            static_sum.eq(addresses + others),
        ]

        verdict = Signal(Verdict)
        judging = Signal()
        m.d.comb += judging.eq(final & ~record.partial)
        headers = record.verdict
        with m.If(record.bad):
            m.d.comb += verdict.eq(Verdict.BAD)
        with m.Elif(headers == Verdict.DISABLED):
            m.d.comb += verdict.eq(Verdict.DISABLED)
        with m.Elif(record.overlong):
            m.d.comb += verdict.eq(Verdict.LONG)
        with m.Elif((headers != 0) & (headers <= Verdict.LENGTHS)):
            m.d.comb += verdict.eq(headers)
        with m.Elif(record.short):
            m.d.comb += verdict.eq(Verdict.LENGTHS)
        with m.Elif(headers != 0):
            m.d.comb += verdict.eq(headers)
            m.d.comb += flows.learn.eq(judging & sequenced)
        with m.Elif(record.tcp & flows.known & (flows.phase != record.phase)):
            m.d.comb += verdict.eq(Verdict.PHASE)
        with m.Else():
            m.d.comb += verdict.eq(Verdict.COMPRESSED)
            m.d.comb += flows.learn.eq(judging & record.tcp & ~flows.known)
        m.d.comb += [
            flows.learn_phase.eq(record.phase + sequenced),  # SYN takes one sequence number
            records.o.ready.eq(final),
            header_sums.o.ready.eq(judging),
            judged.i.valid.eq(final),
            judged.i.payload.verdict.eq(verdict),
            judged.i.payload.candidate.eq(~record.partial & (headers == 0)),
            judged.i.payload.record.eq(record),
            judged.i.payload.static_sum.eq(static_sum),
        ]

    def _settle(self, m: Module, judged: PushQueue, statistics: PushQueue, orders: PushQueue) -> None:
        """A plain pipeline behind the joint of judged frames and block statistics."""
        head, record, block = judged.o.payload, judged.o.payload.record, statistics.o.payload
        go = Signal()
        m.d.comb += [
            go.eq(judged.o.valid & orders.room & (~head.candidate | statistics.o.valid)),
            judged.o.ready.eq(go),
            statistics.o.ready.eq(go & head.candidate),
        ]

        # Stage 1: sizes; the transport checksum; what was saved.
        size = Signal(15)
        saved = Signal(16)
        m.d.comb += [size.eq(block.block_bytes + SHIM_BYTES), saved.eq(record.payload_length - size)]
        cleared = swap16(block.cleared_sum)
        head1 = Signal(_Judged, reset_less=True)
        fits1 = Signal(reset_less=True)
        saved1 = Signal(16, reset_less=True)
        size1 = Signal(15, reset_less=True)
        checksum1 = Signal(16, reset_less=True)
        summed1 = Signal(21, reset_less=True)
        counts1 = Signal(block.counts.shape(), reset_less=True)
        m.d.sync += [
            head1.eq(head),
            fits1.eq(size < record.payload_length),
            saved1.eq(saved),
            size1.eq(size),
            checksum1.eq(add16(record.checksum, cleared)),
            summed1.eq(head.static_sum + (swap16(block.block_sum) + cleared)),
            counts1.eq(block.counts),
        ]

        # Stage 2: the wire form's fields. Its L4 length (in the pseudo header and, with UDP, in the header
        # too) is the original's less what was saved.
        record1 = head1.record
        order_layout = frame_order(self.lanes)
        order2 = Signal(order_layout, reset_less=True)
        wire2 = Signal(22, reset_less=True)
        head2 = Signal(_Judged, reset_less=True)
        fits2 = Signal(reset_less=True)
        size2 = Signal(15, reset_less=True)
        less = (~saved1)[:16]
        m.d.sync += [
            head2.eq(head1),
            fits2.eq(fits1),
            size2.eq(size1),
            wire2.eq(summed1 + (less + Mux(record1.tcp, 0, less))),
            order2.end.eq(~record1.partial),
            order2.bad.eq(record1.bad),
            order2.beats.eq(record1.beats),
            order2.ending.eq(record1.frame_bytes),
            order2.vlan.eq(record1.vlan),
            order2.tcp.eq(record1.tcp),
            order2.payload_at.eq(record1.payload_at),
            order2.total_length.eq(record1.total_length - saved1),
            order2.ip_checksum.eq(add16(record1.ip_checksum, saved1)),
            order2.checksum.eq(checksum1),
            order2.original_length.eq(record1.payload_length),
            order2.b.eq(record1.b),
        ]

        # Stage 3: fold the wire form's sum, and the verdict but for it.
        folded3 = Signal(17, reset_less=True)
        verdict3 = Signal(5, reset_less=True)
        candidate3 = Signal(reset_less=True)
        order3 = Signal(order_layout, reset_less=True)
        length3 = Signal(17, reset_less=True)
        compressed_length3 = Signal(17, reset_less=True)
        go3 = delayed(m, go, 3, name="go", reset=True)
        counts3 = delayed(m, counts1.as_value(), 2, name="counts")
        sum2 = order2.checksum
        expanded = (head2.verdict == Verdict.COMPRESSED) & ~fits2
        m.d.sync += [
            folded3.eq(wire2[:16] + wire2[16:]),
            verdict3.eq(Mux(expanded, Verdict.EXPANDED, head2.verdict)),
            candidate3.eq(head2.candidate),
            order3.eq(order2),
            order3.ip_checksum.eq(canonical16(order2.ip_checksum)),
            # RFC 768: UDP sends a computed 0 as 0xFFFF.
            order3.checksum.eq(
                Mux(order2.tcp, canonical16(sum2), Mux(sum2 == 0, 0xFFFF, sum2)),
            ),
            length3.eq(head2.record.frame_bytes),
            compressed_length3.eq(head2.record.payload_at + size2),
        ]

        # Stage 4: order and report.
        compressible = Signal()
        ambiguous = (
            folded3 == 0xFFFF
        )  # no carry out of this fold is left that could make another multiple of 65535
        compressed = Signal()
        m.d.comb += [
            compressible.eq(order3.end & (verdict3 == Verdict.COMPRESSED)),
            compressed.eq(compressible & ~ambiguous),
            orders.i.valid.eq(go3),
            orders.i.payload.eq(order3),
            orders.i.payload.compressed.eq(compressed),
            orders.i.payload.drop.eq(candidate3 & ~compressed),
        ]
        # Stage 5: the report.
        compressed4 = Signal(reset_less=True)
        ambiguous4 = Signal(reset_less=True)
        length4 = delayed(m, length3, 1, name="length")
        m.d.sync += [
            compressed4.eq(compressed),
            ambiguous4.eq(compressible & ambiguous),
            self.reports.valid.eq(delayed(m, go3 & order3.end, 1, name="report_valid", reset=True)),
            self.reports.payload.verdict.eq(
                Mux(ambiguous4, Verdict.AMBIGUOUS, delayed(m, verdict3, 1, name="verdict"))
            ),
            self.reports.payload.bytes_in.eq(length4),
            self.reports.payload.bytes_out.eq(
                Mux(compressed4, delayed(m, compressed_length3, 1, name="compressed_length"), length4)
            ),
            self.reports.payload.counts.eq(Mux(compressed4, delayed(m, counts3, 1, name="counts_report"), 0)),
        ]
        if not self.codec.classes_are_lanes:
            lanes4 = delayed(m, head2.record.payload_length[2:14], 2, name="lanes")
            m.d.sync += self.reports.payload.lanes.eq(Mux(compressed4, lanes4, 0))
