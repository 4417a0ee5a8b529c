# SPDX-License-Identifier: BSD-2-Clause
"""cocotb bench of PayloadMerge: parts, tails and payload in, frames and faults out.

The parts are laid out by the bench from the frames' bytes. Parameter ``lanes``.
"""

from collections import deque

import cocotb
from chosen_beat import BEAT
from receive_bench import QUEUE_LATENCY, ReceiveBench

from inceptionn.hdl.engine.payload_merge import PayloadMerge

WAITING_TAILS = 2
"""Most tails that may wait with 16 lanes."""


class TB(ReceiveBench):
    """A sink of frames and faults."""

    INPUTS = ("parts", "payload", "tails")
    QUIET = ("m_axis_tvalid", "faults_valid")
    LATENCY = PayloadMerge.LATENCY + QUEUE_LATENCY
    tails_with_last_parts = False
    """A tail comes one cycle before its frame's last part, as if both had left ReceiveLayout together."""

    def begin(self) -> None:
        self.lasts = deque(part["last"] for frame in self.frames for part in frame.parts)
        self.restored = deque(number for number, f in enumerate(self.frames) if f.order["restore"])
        """Frames whose tails have not come."""
        self.frames_taken = self.tails_waiting = 0

    def may_show(self, name: str) -> bool:
        # With 8 lanes a tail may come when the frame before has been taken; with 16 a few may wait.
        if name != "tails":
            return True
        if self.tails_with_last_parts:
            return self.restored[0] == self.frames_taken and bool(self.lasts[1])
        if BEAT.payload_overlaps:
            return self.tails_waiting < WAITING_TAILS
        return self.restored[0] <= self.frames_taken

    def look(self, taken, ready) -> None:
        if "tails" in taken:
            self.restored.popleft()
            self.tails_waiting += 1
        if "parts" in taken and self.lasts.popleft():
            self.tails_waiting -= self.frames[self.frames_taken].order["restore"]
            assert self.tails_waiting >= 0, "a last part is taken before its tail came"
            self.frames_taken += 1
        if ready:
            self.take()
        if self.read("faults_valid"):
            frame = self.frames[self.told]
            assert self.told < self.frames_taken, "a fault is told before the frame's last part"
            assert not frame.order["restore"] or self.read("faults_payload") == frame.faulty
            self.told += 1


@TB.test()
@cocotb.parametrize(
    offer=[(1, 1, 1), (0.3, 1, 1), (1, 0.3, 1), (1, 1, 0.1), (0.5, 0.5, 0.5)], take=[1.0, 0.4]
)
async def mixed(tb, offer, take):
    await tb.mixed(offer, take)


@TB.test()
async def no_gap_if_tails_come_with_last_parts(tb):
    tb.tails_with_last_parts = True
    await tb.no_gap_between_frames()


long_frames, no_gap_between_frames, latency = TB.tests("long_frames", "no_gap_between_frames", "latency")
