# SPDX-License-Identifier: BSD-2-Clause
"""Assembles frames for the host: unchanged, or with patched header and restored payload."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from inceptionn.wire import Verdict

from ..codec.shape import USUAL, EngineShape
from ..control.counters import frame_report
from ..parts.axi import AXIStream
from ..parts.elastic_register import ElasticRegister
from ..parts.queue import PushQueue
from .payload_merge import PayloadMerge
from .receive_decision import ReceiveOrder
from .receive_layout import ReceiveLayout, frame_account, frame_part, restored_burst, wire_beat


class ReceiveAssembler(wiring.Component):
    """Executes orders in sequence, one output beat per cycle, without a gap between most frames.

    ::

        order ──┬─► ReceiveLayout ─┬─ parts ─► ElasticRegister ─┬─► PayloadMerge ─┬─► m_axis
        beats ──┘                  ├─ tails ────────────────────┤                 │
                                   │                  payload ──┘                 │
                                   └─ accounts ─► queue ─► report ◄─ queue ◄─ faults

    A frame that passes is copied. A restored frame gets its header from the waiting beats, patched, and its
    payload from the Decompressor. The waiting beats that hold its block are dropped meanwhile; the last of
    them tells whether the frame arrived complete and undamaged, and the last output beat waits for it.

    The exceptions are :class:`ReceiveLayout`'s. Latency: 6 cycles from the cycle in which order, beat and
    burst are there to the output queue.
    """

    def __init__(self, shape: EngineShape = USUAL):
        self.shape = shape
        super().__init__(
            {
                "orders": In(stream.Signature(ReceiveOrder)),  #: In the frames' order.
                #: The frames' beats from the wire, unchanged.
                "beats": In(stream.Signature(wire_beat(shape))),
                "payload": In(stream.Signature(restored_burst(shape))),  #: From the Decompressor.
                "m_axis": Out(AXIStream(self.shape.bytes)),  #: The frames.
                #: One per frame, in order.
                "reports": Out(stream.Signature(frame_report(shape), always_ready=True)),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        # The register between the two steps keeps either from waiting, in one cycle, for all that a frame
        # needs. How a restored frame ended (`tails`) bypasses it. With 8 lanes at most one tail waits: it
        # arrives with the frame's second part at the earliest, which the register accepts only once the
        # previous frame has left. With 16 lanes it may arrive with the first, so two may wait.
        m = Module()
        m.submodules.layout = layout = ReceiveLayout(self.shape)
        m.submodules.parts = parts = ElasticRegister(frame_part(self.shape), in_ram={"header"})
        m.submodules.merge = merge = PayloadMerge(self.shape)
        wiring.connect(m, wiring.flipped(self.orders), layout.orders)
        wiring.connect(m, wiring.flipped(self.beats), layout.beats)
        wiring.connect(m, layout.parts, parts.i)
        wiring.connect(m, parts.o, merge.parts)
        wiring.connect(m, layout.tails, merge.tails)
        wiring.connect(m, wiring.flipped(self.payload), merge.payload)
        wiring.connect(m, merge.m_axis, wiring.flipped(self.m_axis))

        # One report per frame. Accounts and faults come in the frames' order, either of them first; each
        # queue holds at most what the two steps are apart.
        m.submodules.accounts = accounts = PushQueue(frame_account(self.shape), 16, 0)
        m.submodules.faults = faults = PushQueue(1, 16, 0)
        wiring.connect(m, layout.accounts, accounts.i)
        wiring.connect(m, merge.faults, faults.i)
        both = accounts.o.valid & faults.o.valid
        m.d.comb += [accounts.o.ready.eq(both), faults.o.ready.eq(both)]
        report = self.reports.payload
        account = accounts.o.payload
        whole = Mux(account.short | faults.o.payload, Verdict.MALFORMED, Verdict.RESTORED)
        # A frame that passes is as long as its beats.
        beats = account.beats - (account.ending != 0)
        length = Signal(17)
        m.d.comb += length.eq((beats << self.shape.place_bits) + account.ending)
        m.d.sync += [
            self.reports.valid.eq(both),
            report.verdict.eq(Mux(account.bad, Verdict.BAD, Mux(account.restored, whole, account.verdict))),
            report.bytes_in.eq(length),
            report.bytes_out.eq(Mux(account.restored, account.bytes_out, length)),
        ]
        if self.shape.bf16:
            m.d.sync += report.bf16.eq(
                account.restored & ~account.bad & (whole == Verdict.RESTORED) & account.verdict[0]
            )
        return m
