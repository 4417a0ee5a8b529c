# SPDX-License-Identifier: BSD-2-Clause
"""The verdict on a frame to transmit, as far as it follows from its headers and its flow."""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from inceptionn.wire import PROTOCOL_TCP, PROTOCOL_UDP, SHIM_BYTES, SHIM_MAGIC, Verdict

from ..codec.shape import USUAL, EngineShape
from ..frame.flow_table import FlowTable
from ..frame.header_fields import IPV4
from ..parts.checksum import swap16
from ..parts.pipeline import Pipeline
from ..parts.width import Width
from .frame_recorder import FrameRecord


class JudgedFrame(data.Struct):
    """A record with its verdict, and the part of the wire form's checksum that needs no block."""

    verdict: 5  # of the first check that fails, or COMPRESSED; undefined for a piece
    other_phase: 1  # the last check fails in place of COMPRESSED: the verdict is PHASE
    unknown_flow: 1  # likewise, UNKNOWN_FLOW
    candidate: 1  # a block was made of the payload
    record: FrameRecord
    static_sum: 20
    limit: signed(17)  # a block has fewer bytes: the payload's, less a shim


class TransmitJudging(wiring.Component):
    """Judges frames one after the other: flow-table look-up and update, and the verdict.

    Meanwhile it sums the fixed words of the wire form: pseudo header, TCP or UDP header, shim. The verdict is
    that of the first check that fails, in the order of docs/wire-format.md. It is COMPRESSED if none fails;
    the block's size and checksum can still change that.

    A frame takes four cycles, from the cycle in which record, header sum and room are there to the one in
    which ``judged`` is valid, and a fifth if it changes an entry of the flow table. It takes two if a header
    check fails and the frame begins or ends no flow: with 16 lanes such a frame may be one beat long.
    """

    def __init__(self, shape: EngineShape = USUAL):
        self.shape = shape
        super().__init__(
            {
                "records": In(stream.Signature(FrameRecord)),  #: One per frame or piece, in order.
                #: One per whole record with verdict 0: sum of its TCP or UDP header, little-endian words.
                "header_sums": In(stream.Signature(16)),
                "ready": Out(1),  #: The flow table is cleared. Until then there must be no record.
                "judged": Out(stream.Signature(JudgedFrame, always_ready=True)),  #: One per record.
                #: Room downstream. A frame begins only while it is high, and is pushed at most 3 cycles
                #: later.
                "judged_room": In(1),
            }
        )

    @staticmethod
    def pace_of(width: Width) -> int:
        """Count the fewest cycles per frame."""
        return 2 if width.headers_in_one_beat else 4

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        # Four cycles: present the key, two cycles of RAM, and in the last the verdict.
        m.submodules.flows = flows = FlowTable()
        m.d.comb += self.ready.eq(flows.ready)
        record = self.records.payload
        step = Signal(2)
        start = Signal()
        candidate = Signal()
        m.d.comb += [
            candidate.eq(~record.partial & (record.verdict == 0)),
            start.eq(
                self.records.valid & self.judged_room & ~flows.busy & (~candidate | self.header_sums.valid)
            ),
            flows.index.eq(record.index),
            flows.key.eq(record.key),
            flows.phase.eq(record.phase),
        ]
        final = Signal()  # step == 3
        last_follows = Signal()
        m.d.comb += last_follows.eq(step == 2)
        m.d.sync += final.eq(last_follows)
        with m.If((step != 0) | start):
            m.d.sync += step.eq(step + 1)
        # The verdict needs neither the flow table nor the wire form's sum: it follows at once.
        brief = start & (step == 0) & ~record.partial & (record.verdict != 0)
        with m.If(brief & ~record.opens & ~record.closes):
            m.d.comb += last_follows.eq(1)
            m.d.sync += step.eq(3)

        # All that the record tells by itself is known a cycle earlier.
        headers = record.verdict
        fixed = Signal(Verdict)
        in_flow = Signal()
        with m.If(record.bad):
            m.d.comb += fixed.eq(Verdict.BAD)
        with m.Elif(headers == Verdict.DISABLED):
            m.d.comb += fixed.eq(Verdict.DISABLED)
        with m.Elif(record.overlong):
            m.d.comb += fixed.eq(Verdict.LONG)
        with m.Elif((headers != 0) & (headers <= Verdict.LENGTHS)):
            m.d.comb += fixed.eq(headers)
        with m.Elif(record.short):
            m.d.comb += fixed.eq(Verdict.LENGTHS)
        with m.Elif(headers != 0):
            m.d.comb += fixed.eq(headers)
        with m.Else():
            m.d.comb += [fixed.eq(Verdict.COMPRESSED), in_flow.eq(record.tcp)]
        # A whole frame whose lengths are right may change the table, whatever engine and payload say.
        changes = last_follows & ~(record.partial | record.bad | record.overlong | record.short)
        p = Pipeline(m, control={"opens", "closes", "learns"})
        p.stage(
            fixed=fixed,
            in_flow=in_flow,
            opens=changes & record.opens,
            closes=changes & record.closes,
            learns=changes & in_flow & record.learns & ~record.closes,
            limit=record.payload_length - SHIM_BYTES,
        )
        m.d.comb += [
            flows.store.eq(p.opens),
            flows.add.eq(p.learns),
            flows.free.eq(p.closes),
            flows.new_phase.eq(record.phase + record.opens),  # SYN takes one sequence number
            self.records.ready.eq(final),
            self.header_sums.ready.eq(final & candidate),
            self.judged.valid.eq(final),
            self.judged.payload.verdict.eq(p.fixed),
            self.judged.payload.other_phase.eq(p.in_flow & flows.differs),
            self.judged.payload.unknown_flow.eq(p.in_flow & ~flows.known & ~record.learns),
            self.judged.payload.candidate.eq(candidate),
            self.judged.payload.record.eq(record),
            self.judged.payload.static_sum.eq(self._static_sum(m)),
            self.judged.payload.limit.eq(p.limit),
        ]
        return m

    def _static_sum(self, m: Module) -> Signal:
        """Sum of the fixed words (pseudo, TCP or UDP header, shim): a tree, ready with the last step."""
        record = self.records.payload
        source = Signal(17, reset_less=True)
        destination = Signal(17, reset_less=True)
        length = Signal(16, reset_less=True)
        shim = Signal(17, reset_less=True)
        addresses = Signal(18, reset_less=True)
        others = Signal(19, reset_less=True)
        static_sum = Signal(20, reset_less=True)
        less = Mux(record.tcp, IPV4.size - PROTOCOL_TCP, IPV4.size - PROTOCOL_UDP)
        version = Cat(record.base, Const(self.shape.codec.spec.version, 8))
        header_sum = Signal(17, reset_less=True)
        m.d.sync += [
            source.eq(record.key.source[:16] + record.key.source[16:]),
            destination.eq(record.key.destination[:16] + record.key.destination[16:]),
            # Pseudo header: protocol and original L4 length (total length - 20); shim: magic, version,
            # original payload length.
            length.eq(record.total_length - less),
            shim.eq(record.payload_length + version),
            header_sum.eq(swap16(self.header_sums.payload) + SHIM_MAGIC),
            addresses.eq(source + destination),
            others.eq(length + shim + header_sum),
            static_sum.eq(addresses + others),
        ]
        return static_sum
