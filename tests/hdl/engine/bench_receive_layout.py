# SPDX-License-Identifier: BSD-2-Clause
"""cocotb bench of ReceiveLayout: orders and waiting beats in, parts, tails and accounts out.

Every field that means something is compared with the frame's bytes. Parameter ``lanes``.
"""

from collections import deque
from typing import Any

import cocotb
from chosen_beat import BEAT
from receive_bench import ReceiveBench
from receive_frames import BEAT_BYTES, Frame, FramePart, beats

from inceptionn.hdl.engine.receive_layout import frame_account

FrameAccount = frame_account(BEAT)


def account_of(frame: Frame) -> dict[str, int]:
    """Return what must be accounted of ``frame``."""
    came = {
        "restored": frame.order["restore"],
        "bad": int(frame.bad),
        "short": int(frame.short),
        "beats": beats(len(frame.came)),
        "ending": len(frame.came) % BEAT_BYTES,
    }
    if frame.order["restore"]:
        return {**came, "bytes_out": len(frame.leaves[0])}
    return {**came, "verdict": frame.order["verdict"]}


class TB(ReceiveBench):
    """A sink of parts."""

    INPUTS = ("orders", "beats")
    READY = "parts_ready"
    QUIET = ("parts_valid", "tails_valid", "accounts_valid")
    LATENCY = 2

    def begin(self) -> None:
        self.parts = deque(part for frame in self.frames for part in frame.parts)
        self.beats = deque((frame, beat["last"]) for frame in self.frames for beat in frame.wire_beats)
        self.whole = 0
        """Frames whose last beat was taken."""

    def look(self, taken, ready) -> None:
        # A frame's first part goes before its tail, unless all its headers lie in one beat.
        tail = None
        if "beats" in taken:
            frame, last = self.beats.popleft()
            self.whole += last
            if last and frame.order["restore"]:
                tail = int(frame.bad or frame.short)
                part_seen = self.begun and self.frames[len(self.begun) - 1] is frame
                assert BEAT.payload_overlaps or part_seen, "tail before part"
        assert bool(self.read("tails_valid")) == (tail is not None), f"cycle {self.now}: {tail=}"
        if tail is not None:
            assert self.read("tails_payload") == tail

        if self.read("parts_valid"):
            assert self.parts, "a part too many"
            part = self.parts[0]
            self._compare(FramePart, "parts_payload", part, f"part of frame {len(self.ended)}")
            if ready:
                self.parts.popleft()
                self.begun += [self.now] * part["first"]
                self.ended += [self.now] * part["last"]

        if self.read("accounts_valid"):
            assert self.told < self.whole, f"frame {self.told} is accounted before its last beat"
            assert self.told < len(self.ended), f"frame {self.told} is accounted before its last part"
            expected = account_of(self.frames[self.told])
            self._compare(FrameAccount, "accounts_payload", expected, f"frame {self.told}")
            self.told += 1

    def _compare(self, shape: Any, port: str, expected: dict[str, int], what: str) -> None:
        """Fields that are not expected mean nothing."""
        fields = shape.from_bits(self.read(port))
        found = {name: int(fields[name]) for name in expected}
        assert found == expected, f"{what}: {found}, not {expected}"
        self.checked += 1


@TB.test()
@cocotb.parametrize(offer=[(1, 1), (0.2, 1), (1, 0.3), (0.5, 0.5)], take=[1.0, 0.4])
async def mixed(tb, offer, take):
    await tb.mixed(offer, take)


long_frames, no_gap_between_frames, latency = TB.tests("long_frames", "no_gap_between_frames", "latency")
(reset_in_mid_run,) = TB.tests("reset_in_mid_run")
