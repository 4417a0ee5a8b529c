# SPDX-License-Identifier: BSD-2-Clause
"""The order for a frame to transmit: unchanged, or as shim and block with lengths and checksums."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from inceptionn.wire import SHIM_BYTES, Verdict

from ..codec.shape import USUAL, EngineShape
from ..control.counters import frame_report
from ..parts.checksum import add16, canonical16, swap16
from ..parts.pipeline import Pipeline
from ..parts.width import BURST, Width
from .transmit_judging import JudgedFrame


def frame_order(width: Width = BURST) -> data.StructLayout:
    """Return the layout of the assembler's order for a frame (or a piece of one)."""
    return data.StructLayout(
        {
            "compressed": 1,
            "block": 1,  # there is a block; unless ``compressed``, it is dropped
            "end": 1,  # `tlast` with the last beat
            "bad": 1,
            "beats": 10,  # in the raw ring
            "ending": range(width.bytes),  # bytes of the last raw beat, modulo its width
            "vlan": 1,
            "tcp": 1,
            "payload_at": 7,
            "total_length": 16,  # the rest: as on the wire
            "ip_checksum": 16,
            "checksum": 16,
            "original_length": 16,
            "base": 8,
        }
    )


class BlockSums(data.Struct):
    """The fields of both codecs' ``Statistics`` of a block, without its counts."""

    block_bytes: 14
    block_sum: 16
    cleared_sum: 16


class TransmitResolving(wiring.Component):
    """Joins judged frames with their blocks' statistics and resolves how each frame leaves.

    A frame leaves raw (EXPANDED) if shim and block are no shorter than its payload. Otherwise this computes
    the lengths and checksums of the wire form (RFC 1624). A frame leaves raw, too (AMBIGUOUS), if its wire
    form would pass the end host's checksum as it is: a host without this NIC would accept the block as data.

    Throughput: one frame per cycle. Latency: the order is pushed 3 cycles after the one in which judged frame
    and sums meet, the report 2 cycles later.
    """

    def __init__(self, shape: EngineShape = USUAL):
        self.shape = shape
        super().__init__(
            {
                "judged": In(stream.Signature(JudgedFrame)),  #: In the frames' order.
                "sums": In(stream.Signature(BlockSums)),  #: One per candidate, in order.
                #: Of the same blocks. There when the sums are, but taken with the report, 4 cycles later.
                "counts": In(stream.Signature(frame_report(shape)["counts"].shape)),
                #: One per judged frame or piece.
                "orders": Out(stream.Signature(frame_order(shape), always_ready=True)),
                "orders_room": In(1),  #: Room downstream: after it has fallen, 3 more orders may follow.
                "reports": Out(stream.Signature(frame_report(shape), always_ready=True)),  #: One per frame.
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        head, block = self.judged.payload, self.sums.payload
        go = Signal()
        m.d.comb += [
            self.judged.ready.eq(self.orders_room & (~head.candidate | self.sums.valid)),
            self.sums.ready.eq(self.judged.valid & self.orders_room & head.candidate),
            go.eq(self.judged.valid & self.judged.ready),
        ]
        p = Pipeline(m, control={"go", "counted", "reported"})
        p.let(go=go, counted=go & head.candidate, head=head)

        # Stage 1: sizes, bytes saved, the transport checksum.
        record, cleared = head.record, swap16(block.cleared_sum)
        p.let(size=block.block_bytes + SHIM_BYTES)
        p.stage(
            fits=block.block_bytes < head.limit,
            saved=(head.limit - block.block_bytes)[:16],
            checksum=add16(record.checksum, cleared),
            summed=head.static_sum + (swap16(block.block_sum) + cleared),
        )

        # Stage 2: the wire form's fields. Its L4 length is the original's minus the bytes saved. It counts in
        # the pseudo header and, with UDP, also in the header.
        record = p.head.record
        less = (~p.saved)[:16]
        p.let(
            end=~record.partial,
            verdict=Mux(
                p.head.other_phase,
                Verdict.PHASE,
                Mux(p.head.unknown_flow, Verdict.UNKNOWN_FLOW, p.head.verdict),
            ),
        )
        p.stage(
            wire=p.summed + (less + Mux(record.tcp, 0, less)),
            total_length=(record.total_length - p.saved)[:16],
            ip_checksum=add16(record.ip_checksum, p.saved),
        )

        # Stage 3: whether the wire form's sum folds to 0xFFFF, found without an adder; the verdict that does
        # not depend on it. After this fold no other multiple of 65535 is possible.
        head, checksum = p.head, p.checksum
        compressible = p.verdict == Verdict.COMPRESSED
        p.stage(
            ambiguous=p.wire[:16] == 0xFFFF - p.wire[16:],
            compressible=p.end & compressible & p.fits,
            verdict=Mux(compressible & ~p.fits, Verdict.EXPANDED, p.verdict),
            ip_checksum=canonical16(p.ip_checksum),
            # RFC 768: UDP sends a computed 0 as 0xFFFF.
            checksum=Mux(head.record.tcp, canonical16(checksum), Mux(checksum == 0, 0xFFFF, checksum)),
            compressed_length=head.record.payload_at + p.size,
        )

        # The order.
        compressed = Signal()
        record, order = p.head.record, self.orders.payload
        m.d.comb += [
            compressed.eq(p.compressible & ~p.ambiguous),
            self.orders.valid.eq(p.go),
            order.compressed.eq(compressed),
            order.block.eq(p.head.candidate),
            order.end.eq(p.end),
            order.bad.eq(record.bad),
            order.beats.eq(record.beats),
            order.ending.eq(record.frame_bytes),
            order.vlan.eq(record.vlan),
            order.tcp.eq(record.tcp),
            order.payload_at.eq(record.payload_at),
            order.total_length.eq(p.total_length),
            order.ip_checksum.eq(p.ip_checksum),
            order.checksum.eq(p.checksum),
            order.original_length.eq(record.payload_length),
            order.base.eq(record.base),
        ]

        self._report(m, p, compressed)
        return m

    def _report(self, m: Module, p: Pipeline, compressed: Signal) -> None:
        """Make the report, in stages 4 and 5."""
        record = p.head.record
        p.let(frame_bytes=record.frame_bytes, lanes=record.payload_length[2:14], bf16=record.base[-1])
        p.stage(
            compressed=compressed,
            ambiguous=p.compressible & p.ambiguous,
            reported=p.go & p.end,
        )
        report = self.reports.payload
        m.d.comb += self.counts.ready.eq(p.counted)
        m.d.sync += [
            self.reports.valid.eq(p.reported),
            report.verdict.eq(Mux(p.ambiguous, Verdict.AMBIGUOUS, p.verdict)),
            report.bytes_in.eq(p.frame_bytes),
            report.bytes_out.eq(Mux(p.compressed, p.compressed_length, p.frame_bytes)),
            report.counts.eq(Mux(p.compressed, self.counts.payload.as_value(), 0)),
        ]
        if not self.shape.codec.spec.counts_lanes:
            m.d.sync += report.lanes.eq(Mux(p.compressed, p.lanes, 0))
        if self.shape.bf16:
            m.d.sync += report.bf16.eq(p.compressed & p.bf16)
