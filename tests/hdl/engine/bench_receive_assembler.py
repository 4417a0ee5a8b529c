# SPDX-License-Identifier: BSD-2-Clause
"""cocotb bench of ReceiveAssembler: orders, waiting beats and payload in, frames and reports out.

Parameter ``lanes``.
"""

import cocotb
from receive_bench import QUEUE_LATENCY, ReceiveBench

from inceptionn.hdl.control.counters import frame_report


class TB(ReceiveBench):
    """A sink of frames and reports."""

    INPUTS = ("orders", "beats", "payload")
    QUIET = ("m_axis_tvalid", "reports_valid")
    LATENCY = 6 + QUEUE_LATENCY

    def look(self, taken, ready) -> None:
        if ready:
            self.take()
        if self.read("reports_valid"):
            report = frame_report().from_bits(self.read("reports_payload"))
            frame = self.frames[self.told]
            found = report.verdict, report.bytes_in, report.bytes_out
            assert found == frame.report, f"{frame.order}: reported {found}, not {frame.report}"
            assert not any(report.counts)
            self.told += 1


@TB.test()
@cocotb.parametrize(
    offer=[(1, 1, 1), (0.2, 1, 1), (1, 0.3, 1), (1, 1, 0.3), (0.5, 0.5, 0.5)], take=[1.0, 0.4]
)
async def mixed(tb, offer, take):
    await tb.mixed(offer, take)


long_frames, no_gap_between_frames, latency = TB.tests("long_frames", "no_gap_between_frames", "latency")
