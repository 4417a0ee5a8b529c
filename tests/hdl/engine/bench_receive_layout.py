# SPDX-License-Identifier: BSD-2-Clause
"""cocotb bench of ReceiveLayout: orders and waiting beats in, parts, tails and accounts out.

Every field that means something is compared with the frame's bytes. Parameter ``lanes``.
"""

from __future__ import annotations

import random

import cocotb
from cocotb.triggers import Timer
from lockstep import Lockstep
from receive_frames import (
    BEAT_BYTES,
    LANES,
    Frame,
    FramePart,
    Offer,
    beats,
    long_mixture,
    mixture,
    streams_without_gap,
)

from inceptionn.hdl.engine.receive_decision import ReceiveOrder
from inceptionn.hdl.engine.receive_layout import frame_account, wire_beat
from inceptionn.hdl.parts.beat import Beat

WireBeat = wire_beat(LANES)
FrameAccount = frame_account(LANES)
LATENCY = 2
"""Cycles from an order and its first beat to the first part."""


def account_of(frame: Frame) -> dict[str, int]:
    """What must be accounted of ``frame``."""
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


class TB(Lockstep):
    """Two inputs that offer what they have, and a sink of parts."""

    def __init__(self, dut):
        super().__init__(dut)
        self.taken: list[int] = []
        """The cycle in which each part was taken."""
        self.shown = 0
        """The cycle in which the first part was shown."""

    async def reset(self) -> None:
        for name in ("orders_valid", "beats_valid", "parts_ready"):
            getattr(self.dut, name).value = 0
        await super().reset()

    async def run(self, frames: list[Frame], *, offer: tuple[float, float] = (1, 1), take=1.0) -> None:
        """Runs frames through and checks what comes out in every cycle.

        ``offer``: probability in each cycle that the next order, waiting beat shows; ``take``: that the sink
        is ready.
        """
        dut = self.dut
        orders = [{"orders_payload": ReceiveOrder.as_shape().const(f.order).as_bits()} for f in frames]
        waiting = [{"beats_payload": WireBeat.const(beat).as_bits()} for f in frames for beat in f.wire_beats]
        order_input = Offer(dut, "orders_valid", "orders_ready", orders)
        beat_input = Offer(dut, "beats_valid", "beats_ready", waiting)
        parts = [(number, part) for number, frame in enumerate(frames) for part in frame.parts]
        beats_of = [(frame, beat["last"]) for frame in frames for beat in frame.wire_beats]
        beats_taken = accounted = 0
        limit = self.now + 300 + 30 * sum(beats(max(f.report[1:])) for f in frames)
        self.taken.clear()
        self.shown = 0
        while accounted < len(frames):
            done = len(self.taken)
            assert self.now < limit, f"hang: {done} of {len(parts)} parts, {accounted} accounts"
            order_input.show(offer[0])
            beat_input.show(offer[1])
            ready = random.random() < take
            dut.parts_ready.value = ready
            await Timer(1, "ns")
            order_input.taken()

            # A frame's first part goes before its tail, unless all its headers lie in one beat.
            tail = None
            if beat_input.taken():
                frame, last = beats_of[beats_taken]
                beats_taken += 1
                if last and frame.order["restore"]:
                    tail = int(frame.bad or frame.short)
                    part_seen = done and frames[parts[done - 1][0]] is frame
                    assert Beat(LANES).payload_overlaps or part_seen, "tail before part"
            assert bool(self.read("tails_valid")) == (tail is not None), f"cycle {self.now}: {tail=}"
            if tail is not None:
                assert self.read("tails_payload") == tail

            if self.read("parts_valid"):
                assert done < len(parts), "a part too many"
                self._compare(FramePart, "parts_payload", parts[done][1], f"part {done}")
                self.shown = self.shown or self.now
                if ready:
                    self.taken.append(self.now)

            if self.read("accounts_valid"):
                number = accounted
                parts_left = done < len(parts) and parts[done][0] <= number
                came = sum(last for _, last in beats_of[:beats_taken]) > number
                assert came, f"frame {number} is accounted before its last beat"
                assert not parts_left, f"frame {number} is accounted before its last part"
                self._compare(FrameAccount, "accounts_payload", account_of(frames[number]), f"frame {number}")
                accounted += 1
            await self.cycle()
        dut.orders_valid.value = dut.beats_valid.value = 0
        for _ in range(20):
            await self.cycle()
            for name in ("parts_valid", "tails_valid", "accounts_valid"):
                assert not self.read(name), f"{name} after the last frame"
        assert not [*order_input.items, *beat_input.items], "something was left over"

    def _compare(self, shape, port: str, expected: dict[str, int], what: str) -> None:
        """Fields that are not expected mean nothing."""
        fields = shape.from_bits(self.read(port))
        found = {name: int(fields[name]) for name in expected}
        assert found == expected, f"{what}: {found}, not {expected}"
        self.checked += 1


@cocotb.test()
@cocotb.parametrize(offer=[(1, 1), (0.2, 1), (1, 0.3), (0.5, 0.5)], take=[1.0, 0.4])
async def mixed(dut, offer, take):
    """Whichever of orders and beats comes late, and whatever the sink does."""
    tb = await TB.started(dut)
    await tb.run(mixture(100), offer=offer, take=take)


@cocotb.test()
async def long_frames(dut):
    tb = await TB.started(dut)
    await tb.run(long_mixture())


@cocotb.test()
async def no_gap_between_frames(dut):
    """One part per cycle, back to back, whether frames pass or are restored."""
    tb = await TB.started(dut)
    for frames in streams_without_gap():
        await tb.run(frames)
        cycles = tb.taken[-1] - tb.taken[0] + 1
        assert cycles == len(tb.taken), f"{len(tb.taken)} parts took {cycles} cycles"


@cocotb.test()
async def latency(dut):
    tb = await TB.started(dut)
    for frame in (Frame.passing(300), Frame.restored(100, 100)):
        start = tb.now
        await tb.run([frame])
        assert tb.shown - start == LATENCY, f"{tb.shown - start} cycles"
