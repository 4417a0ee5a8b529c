# SPDX-License-Identifier: BSD-2-Clause
"""cocotb bench of PayloadMerge: parts, tails and payload in, frames and faults out.

The parts are laid out by the bench from the frames' bytes. Parameter ``lanes``.
"""

from __future__ import annotations

import random

import cocotb
from cocotb.triggers import Timer
from receive_frames import (
    LANES,
    QUEUE_LATENCY,
    Frame,
    FramePart,
    FrameSink,
    Offer,
    beats,
    long_mixture,
    mixture,
    streams_without_gap,
)

from inceptionn.hdl.engine.payload_merge import PayloadMerge
from inceptionn.hdl.parts.beat import Beat

WAITING_TAILS = 4
"""Most tails that may wait with 16 lanes."""


def part_bits(part: dict[str, int]) -> int:
    """A part with noise in the fields that mean nothing."""
    noise = {name: random.getrandbits(field.width) for name, field in FramePart}
    return FramePart.const(noise | part).as_bits()


class TB(FrameSink):
    """Two inputs that offer what they have, a source of tails, and a sink."""

    async def reset(self) -> None:
        for name in ("parts_valid", "tails_valid", "payload_valid", "m_axis_tready"):
            getattr(self.dut, name).value = 0
        await super().reset()

    async def run(
        self, frames: list[Frame], *, offer: tuple[float, float, float] = (1, 1, 1), take=1.0
    ) -> None:
        """Runs frames through and checks each, and whether it is told to be malformed.

        ``offer``: probability in each cycle that the next part, payload beat shows and that a tail comes;
        ``take``: that the sink is ready.
        """
        dut = self.dut
        parts = [{"parts_payload": part_bits(part)} for frame in frames for part in frame.parts]
        payload = [{"payload_payload": burst} for frame in frames for burst in frame.payload_bursts]
        part_input = Offer(dut, "parts_valid", "parts_ready", parts)
        payload_input = Offer(dut, "payload_valid", "payload_ready", payload)
        ends = [part["last"] for frame in frames for part in frame.parts]
        tails = [(number, f.bad or f.short) for number, f in enumerate(frames) if f.order["restore"]]
        tails_sent = out = told = 0
        frames_taken = parts_taken = restored_taken = 0
        limit = self.now + 300 + 30 * sum(beats(len(frame.leaves[0])) for frame in frames)
        self.begun.clear()
        self.ended.clear()
        while out < len(frames) or told < len(frames):
            assert self.now < limit, f"hang: {out} of {len(frames)} frames out, {told} faults told"
            # With 8 lanes a tail may come when the frame before has been taken; with 16 a few may wait.
            tail = random.random() < offer[2] and tails_sent < len(tails)
            if not Beat(LANES).payload_overlaps:
                tail = tail and tails[tails_sent][0] <= frames_taken
            else:
                tail = tail and tails_sent - restored_taken < WAITING_TAILS
            dut.tails_valid.value = tail
            dut.tails_payload.value = tails[tails_sent][1] if tail else random.getrandbits(1)
            tails_sent += tail
            part_input.show(offer[0])
            payload_input.show(offer[1])
            ready = random.random() < take
            dut.m_axis_tready.value = ready
            await Timer(1, "ns")
            if part_input.taken():
                if ends[parts_taken]:
                    restored_taken += frames[frames_taken].order["restore"]
                    assert tails_sent >= restored_taken, "a last part is taken before its tail came"
                    frames_taken += 1
                parts_taken += 1
            payload_input.taken()
            if ready and self.read("m_axis_tvalid"):
                out += self.collect(frames[out])
            if self.read("faults_valid"):
                frame = frames[told]
                assert told < frames_taken, "a fault is told before the frame's last part"
                assert not frame.order["restore"] or self.read("faults_payload") == frame.faulty
                told += 1
            await self.cycle()
        dut.parts_valid.value = dut.payload_valid.value = dut.tails_valid.value = 0
        for _ in range(20):
            await self.cycle()
            for name in ("m_axis_tvalid", "faults_valid"):
                assert not self.read(name), f"{name} after the last frame"
        assert not [*part_input.items, *payload_input.items], "something was left over"


@cocotb.test()
@cocotb.parametrize(
    offer=[(1, 1, 1), (0.3, 1, 1), (1, 0.3, 1), (1, 1, 0.1), (0.5, 0.5, 0.5)], take=[1.0, 0.4]
)
async def mixed(dut, offer, take):
    """Whichever of parts, payload and tails comes late, and whatever the sink does."""
    tb = await TB.started(dut)
    await tb.run(mixture(100), offer=offer, take=take)


@cocotb.test()
async def long_frames(dut):
    tb = await TB.started(dut)
    await tb.run(long_mixture())


@cocotb.test()
async def no_gap_between_frames(dut):
    """One beat per cycle, back to back, whether frames pass or are restored."""
    tb = await TB.started(dut)
    for frames in streams_without_gap():
        await tb.run(frames)
        total = sum(beats(len(frame.leaves[0])) for frame in frames)
        assert tb.span() == total, f"{total} beats took {tb.span()} cycles"


@cocotb.test()
async def latency(dut):
    """From the cycle in which part and burst are there to the output."""
    tb = await TB.started(dut)
    for frame in (Frame.passing(300), Frame.restored(100, 100)):
        start = tb.now
        await tb.run([frame])
        assert tb.begun[0] - start == PayloadMerge.LATENCY + QUEUE_LATENCY, f"{tb.begun[0] - start} cycles"
