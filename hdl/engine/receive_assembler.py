# SPDX-License-Identifier: BSD-2-Clause
"""Puts frames together for the host: as they came, or patched header and restored payload."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from inceptionn.wire import GROUP_LANES, Verdict

from ..control.counters import FrameReport
from ..parts.axi import AXIStream
from ..parts.beat import Beat
from ..parts.elastic_register import ElasticRegister
from ..parts.queue import PushQueue
from .payload_merge import PayloadMerge
from .receive_decision import ReceiveOrder
from .receive_layout import ReceiveLayout, frame_account, frame_part, wire_beat


class ReceiveAssembler(wiring.Component):
    """Carries out one order after the other, one output beat per cycle, without a gap between frames.

    ::

        order ──┬─► ReceiveLayout ─┬─ parts ─► ElasticRegister ─┬─► PayloadMerge ─┬─► m_axis
        beats ──┘                  ├─ tails ────────────────────┤                 │
                                   │                  payload ──┘                 │
                                   └─ accounts ─► queue ─► report ◄─ queue ◄─ faults

    A frame that passes is copied. A restored frame gets its header from the waiting beats, patched, and its
    payload from the Decompressor. The waiting beats that hold its block are dropped meanwhile; the last of
    them tells whether the frame came whole and good, and the last output beat waits for it.

    Latency: 6 cycles from the cycle in which order, beat and burst are there to the output queue.

    Parameters
    ----------
    lanes : :class:`int`
        fp32 lanes of a beat, 8 or 16.

    Members
    -------
    order, order_valid, order_pop
        From the decision, in the frames' order.
    wire_beat, wire_valid, wire_pop
        Waiting beats.
    payload : :py:`In(AXIStream(4 * lanes))`
        From the Decompressor; ``tuser`` at ``tlast``: malformed.
    m_axis : :py:`Out(AXIStream(4 * lanes))`
    report, report_valid
        One :class:`FrameReport` per frame, in order.
    """

    def __init__(self, *, lanes: int = GROUP_LANES):
        self.width = Beat.of_groups(lanes)
        self.lanes = lanes
        super().__init__(
            {
                "order": In(ReceiveOrder),
                "order_valid": In(1),
                "order_pop": Out(1),
                "wire_beat": In(wire_beat(lanes)),
                "wire_valid": In(1),
                "wire_pop": Out(1),
                "payload": In(AXIStream(self.width.bytes)),
                "m_axis": Out(AXIStream(self.width.bytes)),
                "report": Out(FrameReport),
                "report_valid": Out(1),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        # The register between the two steps keeps either from waiting, in one cycle, for all that a frame
        # needs. How a restored frame ended (`tails`) bypasses it. With 8 lanes at most one tail waits: it
        # comes with the frame's second part at the earliest, which the register accepts only when the frame
        # before has left. With 16 lanes it may come with the first.
        m = Module()
        m.submodules.layout = layout = ReceiveLayout(lanes=self.lanes)
        m.submodules.parts = parts = ElasticRegister(frame_part(self.lanes))
        m.submodules.merge = merge = PayloadMerge(lanes=self.lanes)
        wiring.connect(m, layout.tails, merge.tails)
        wiring.connect(m, wiring.flipped(self.payload), merge.payload)
        wiring.connect(m, merge.m_axis, wiring.flipped(self.m_axis))
        m.d.comb += [
            layout.orders.payload.eq(self.order),
            layout.orders.valid.eq(self.order_valid),
            self.order_pop.eq(layout.orders.ready),
            layout.beats.payload.eq(self.wire_beat),
            layout.beats.valid.eq(self.wire_valid),
            self.wire_pop.eq(layout.beats.ready),
            parts.i.payload.eq(layout.parts.payload),
            parts.i.valid.eq(layout.parts.valid),
            layout.parts.ready.eq(parts.i.ready),
            merge.parts.payload.eq(parts.o.payload),
            merge.parts.valid.eq(parts.o.valid),
            parts.o.ready.eq(merge.parts.ready),
        ]

        # One report per frame. Accounts and faults come in the frames' order, either of them first; each
        # queue holds at most what the two steps are apart.
        m.submodules.accounts = accounts = PushQueue(frame_account(self.lanes), 16, 0)
        m.submodules.faults = faults = PushQueue(1, 16, 0)
        both = accounts.o.valid & faults.o.valid
        m.d.comb += [
            accounts.i.valid.eq(layout.accounts.valid),
            accounts.i.payload.eq(layout.accounts.payload),
            accounts.o.ready.eq(both),
            faults.i.valid.eq(merge.faults.valid),
            faults.i.payload.eq(merge.faults.payload),
            faults.o.ready.eq(both),
        ]
        account = accounts.o.payload
        whole = Mux(account.short | faults.o.payload, Verdict.MALFORMED, Verdict.RESTORED)
        # A frame that passes is as long as its beats.
        beats = account.beats - (account.ending != 0)
        length = Signal(17)
        m.d.comb += length.eq((beats << self.width.place_bits) + account.ending)
        m.d.sync += [
            self.report_valid.eq(both),
            self.report.verdict.eq(
                Mux(account.bad, Verdict.BAD, Mux(account.restored, whole, account.verdict))
            ),
            self.report.bytes_in.eq(length),
            self.report.bytes_out.eq(Mux(account.restored, account.bytes_out, length)),
        ]
        return m
