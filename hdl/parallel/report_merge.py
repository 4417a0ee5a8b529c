# SPDX-License-Identifier: BSD-2-Clause
"""The reports of several engines as one engine's: one per frame, in order."""

from functools import reduce
from operator import or_
from typing import Any

from amaranth.hdl import Array, Cat, Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from inceptionn.wire import Verdict

from ..control.counters import FrameReport
from ..parts.queue import PushQueue
from .dispatch_queue import check_engines
from .flow_directory import Ticket
from .packet_dispatch import MOST_FRAMES, Dispatched

_IN_TABLE = (Verdict.COMPRESSED, Verdict.EXPANDED, Verdict.AMBIGUOUS, Verdict.PHASE, Verdict.SYN)
"""Verdicts after which the flow-phase table holds a TCP segment's flow (wire format, sections 5 and 7)."""


class ReportMerge(wiring.Component):
    """Takes a report from every engine in every cycle; gives the kept frames' reports in frame order.

    Throughput: one report per cycle.

    Parameters
    ----------
    engines : :class:`int`

    Members
    -------
    frame : :py:`In(Dispatched(engines))`
        From the dispatcher; at most 64 frames of an engine may be in flight.
    engine_report, engine_report_valid : arrays of :py:`In`, one for each engine
        One per frame that the engine saw, in order.
    report, report_valid : :py:`Out`
        One per frame.
    reported : :py:`Out(range(3)).array(engines)`
        Number of an engine's frames that are finished in this cycle.
    confirm, confirmed : :py:`Out`
        For :class:`FlowDirectory`: the engines' flow tables hold this frame's flow.
    """

    def __init__(self, engines: int):
        check_engines(engines)
        self.engines = engines
        super().__init__(
            {
                "frame": In(Dispatched(engines)),
                "engine_report": In(FrameReport).array(engines),
                "engine_report_valid": In(1).array(engines),
                "report": Out(FrameReport),
                "report_valid": Out(1),
                "reported": Out(range(3)).array(engines),
                "confirm": Out(1),
                "confirmed": Out(Ticket),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        numbers = range(self.engines)
        known = data.StructLayout({"keep": 1, "ticket": Ticket})
        entry = data.StructLayout({"report": FrameReport, "ticket": Ticket})
        m.submodules.order = order = PushQueue(numbers, MOST_FRAMES * self.engines, 0)
        m.d.comb += [order.i.valid.eq(self.frame.valid), order.i.payload.eq(self.frame.owner)]
        reports = []
        for i in numbers:
            frames = PushQueue(known, MOST_FRAMES, 0)
            queue = PushQueue(entry, MOST_FRAMES, 0)
            m.submodules[f"frames{i}"], m.submodules[f"reports{i}"] = frames, queue
            m.d.comb += [
                frames.i.valid.eq(self.frame.valid & self.frame.targets[i]),
                frames.i.payload.keep.eq(self.frame.owner == i),
                frames.i.payload.ticket.eq(self.frame.ticket),
                frames.o.ready.eq(self.engine_report_valid[i]),
                queue.i.valid.eq(self.engine_report_valid[i] & frames.o.payload.keep),
                queue.i.payload.report.eq(self.engine_report[i]),
                queue.i.payload.ticket.eq(frames.o.payload.ticket),
                queue.o.ready.eq(order.o.valid & (order.o.payload == i)),
            ]
            m.d.sync += self.reported[i].eq(
                (self.engine_report_valid[i] & ~frames.o.payload.keep) + (queue.o.ready & queue.o.valid)
            )
            reports.append(queue)
        found = Signal()
        oldest = data.View(entry, Array(queue.o.payload.as_value() for queue in reports)[order.o.payload])
        m.d.comb += [
            found.eq(order.o.valid & Cat(queue.o.valid for queue in reports).bit_select(order.o.payload, 1)),
            order.o.ready.eq(found),
        ]
        in_table = reduce(or_, (oldest.report.verdict == verdict for verdict in _IN_TABLE))
        m.d.sync += [
            self.report_valid.eq(found),
            self.report.eq(oldest.report),
            self.confirm.eq(found & oldest.ticket.shared & in_table),
            self.confirmed.eq(oldest.ticket),
        ]
        return m
