# SPDX-License-Identifier: BSD-2-Clause
"""The reports of several engines as one engine's: one per frame, in order."""

from typing import Any

from amaranth.hdl import Array, Cat, Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..codec.shape import USUAL, EngineShape
from ..control.counters import frame_report
from ..parts.queue import PushQueue
from .dispatch_queue import check_engines
from .packet_dispatch import MOST_FRAMES, dispatched


class ReportMerge(wiring.Component):
    """Accepts a report from every engine in every cycle; outputs the kept frames' reports in frame order.

    Throughput: one report per cycle.

    Parameters
    ----------
    engines : :class:`int`
    shape : :class:`EngineShape`
    """

    def __init__(self, engines: int, shape: EngineShape = USUAL):
        check_engines(engines)
        self.engines = engines
        self.shape = shape
        super().__init__(
            {
                #: From the dispatcher; at most 64 frames of an engine may be in flight.
                "frames": In(stream.Signature(dispatched(engines), always_ready=True)),
                #: One per frame that the engine saw, in order.
                "engine_reports": In(stream.Signature(frame_report(shape), always_ready=True)).array(engines),
                "reports": Out(stream.Signature(frame_report(shape), always_ready=True)),  #: One per frame.
                #: Number of an engine's frames that are finished in this cycle.
                "reported": Out(range(3)).array(engines),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        numbers = range(self.engines)
        entry = frame_report(self.shape)
        frame = self.frames.payload
        m.submodules.order = order = PushQueue(numbers, MOST_FRAMES * self.engines, 0)
        m.d.comb += [order.i.valid.eq(self.frames.valid), order.i.payload.eq(frame.owner)]
        reports = []
        for i in numbers:
            kept = PushQueue(1, MOST_FRAMES, 0)
            queue = PushQueue(entry, MOST_FRAMES, 0)
            m.submodules[f"kept{i}"], m.submodules[f"reports{i}"] = kept, queue
            m.d.comb += [
                kept.i.valid.eq(self.frames.valid & frame.targets[i]),
                kept.i.payload.eq(frame.owner == i),
                kept.o.ready.eq(self.engine_reports[i].valid),
                queue.i.valid.eq(self.engine_reports[i].valid & kept.o.payload),
                queue.i.payload.eq(self.engine_reports[i].payload),
                queue.o.ready.eq(order.o.valid & (order.o.payload == i)),
            ]
            m.d.sync += self.reported[i].eq(
                (self.engine_reports[i].valid & ~kept.o.payload) + (queue.o.ready & queue.o.valid)
            )
            reports.append(queue)
        found = Signal()
        oldest = data.View(entry, Array(queue.o.payload.as_value() for queue in reports)[order.o.payload])
        m.d.comb += [
            found.eq(order.o.valid & Cat(queue.o.valid for queue in reports).bit_select(order.o.payload, 1)),
            order.o.ready.eq(found),
        ]
        m.d.sync += [
            self.reports.valid.eq(found),
            self.reports.payload.eq(oldest),
        ]
        return m
