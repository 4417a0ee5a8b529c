# SPDX-License-Identifier: BSD-2-Clause
"""The order for a frame to transmit: as it came, or as shim and block with their lengths and checksums."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from inceptionn.wire import GROUP_LANES, SHIM_BYTES, Verdict

from ..codec.codecs import PAPER, codec_of
from ..control.counters import frame_report
from ..parts.beat import Beat
from ..parts.checksum import add16, canonical16, swap16
from ..parts.delay import delayed
from .transmit_judging import JudgedFrame


def frame_order(lanes: int = GROUP_LANES) -> data.StructLayout:
    """What the assembler has to do for a frame (or a piece of one)."""
    return data.StructLayout(
        {
            "compressed": 1,
            "drop": 1,  # there is a block and it is not wanted
            "end": 1,  # `tlast` with the last beat
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


class BlockSums(data.Struct):
    """What both codecs' ``Statistics`` say of a block, without its counts."""

    block_bytes: 14
    block_sum: 16
    cleared_sum: 16


class TransmitSettling(wiring.Component):
    """Joins judged frames with their blocks' statistics and settles how each frame leaves.

    A frame leaves raw (EXPANDED) if shim and block are no shorter than its payload. Otherwise this computes
    the lengths and checksums of the wire form (RFC 1624). A frame leaves raw, too (AMBIGUOUS), if its wire
    form would pass the end host's checksum as it is: a host without this NIC would accept the block as data.

    Throughput: one frame per cycle. Latency: the order is pushed 3 cycles after the one in which judged frame
    and sums meet, the report 2 cycles later.

    Parameters
    ----------
    lanes : :class:`int`
        fp32 lanes of a beat, 8 or 16.
    codec : :class:`str`
        Name of the lane codec (:data:`inceptionn.hdl.codec.codecs.CODECS`).

    Members
    -------
    judged : :py:`In(stream.Signature(JudgedFrame))`
        In the frames' order.
    sums : :py:`In(stream.Signature(BlockSums))`
        One per candidate, in order.
    counts : :py:`In(stream.Signature(frame_report(codec)["counts"].shape))`
        Of the same blocks. There when the sums are, but taken with the report, 4 cycles later.
    orders : :py:`Out(stream.Signature(frame_order(lanes), always_ready=True))`
        One per judged frame or piece.
    orders_room : :py:`In(1)`
        Room downstream: after it has fallen, 3 more orders may follow.
    reports : :py:`Out(stream.Signature(frame_report(codec), always_ready=True))`
        One per frame.
    """

    def __init__(self, *, lanes: int = GROUP_LANES, codec: str = PAPER):
        self.codec = codec_of(codec)
        self.width = Beat.of_groups(lanes)
        super().__init__(
            {
                "judged": In(stream.Signature(JudgedFrame)),
                "sums": In(stream.Signature(BlockSums)),
                "counts": In(stream.Signature(frame_report(codec)["counts"].shape)),
                "orders": Out(stream.Signature(frame_order(lanes), always_ready=True)),
                "orders_room": In(1),
                "reports": Out(stream.Signature(frame_report(codec), always_ready=True)),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        head, record, block = self.judged.payload, self.judged.payload.record, self.sums.payload
        go = Signal()
        m.d.comb += [
            go.eq(self.judged.valid & self.orders_room & (~head.candidate | self.sums.valid)),
            self.judged.ready.eq(go),
            self.sums.ready.eq(go & head.candidate),
            self.counts.ready.eq(delayed(m, go & head.candidate, 4, name="counted", reset=True)),
        ]

        # Stage 1: sizes, bytes saved, the transport checksum.
        size = Signal(15)
        saved = Signal(16)
        m.d.comb += [size.eq(block.block_bytes + SHIM_BYTES), saved.eq(record.payload_length - size)]
        cleared = swap16(block.cleared_sum)
        head1 = Signal(JudgedFrame, reset_less=True)
        fits1 = Signal(reset_less=True)
        saved1 = Signal(16, reset_less=True)
        size1 = Signal(15, reset_less=True)
        checksum1 = Signal(16, reset_less=True)
        summed1 = Signal(21, reset_less=True)
        m.d.sync += [
            head1.eq(head),
            fits1.eq(size < record.payload_length),
            saved1.eq(saved),
            size1.eq(size),
            checksum1.eq(add16(record.checksum, cleared)),
            summed1.eq(head.static_sum + (swap16(block.block_sum) + cleared)),
        ]

        # Stage 2: the wire form's fields. Its L4 length is the original's minus the bytes saved. It counts in
        # the pseudo header and, with UDP, also in the header.
        record1 = head1.record
        order_layout = frame_order(self.width.lanes)
        order2 = Signal(order_layout, reset_less=True)
        wire2 = Signal(22, reset_less=True)
        head2 = Signal(JudgedFrame, reset_less=True)
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

        # Stage 3: the wire form's sum is folded; the verdict that does not depend on it.
        folded3 = Signal(17, reset_less=True)
        verdict3 = Signal(5, reset_less=True)
        candidate3 = Signal(reset_less=True)
        order3 = Signal(order_layout, reset_less=True)
        length3 = Signal(17, reset_less=True)
        compressed_length3 = Signal(17, reset_less=True)
        go3 = delayed(m, go, 3, name="go", reset=True)
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
        # After this fold no other multiple of 65535 is possible.
        ambiguous = folded3 == 0xFFFF
        compressed = Signal()
        m.d.comb += [
            compressible.eq(order3.end & (verdict3 == Verdict.COMPRESSED)),
            compressed.eq(compressible & ~ambiguous),
            self.orders.valid.eq(go3),
            self.orders.payload.eq(order3),
            self.orders.payload.compressed.eq(compressed),
            self.orders.payload.drop.eq(candidate3 & ~compressed),
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
            self.reports.payload.counts.eq(Mux(compressed4, self.counts.payload.as_value(), 0)),
        ]
        if not self.codec.classes_are_lanes:
            lanes4 = delayed(m, head2.record.payload_length[2:14], 2, name="lanes")
            m.d.sync += self.reports.payload.lanes.eq(Mux(compressed4, lanes4, 0))
        return m
