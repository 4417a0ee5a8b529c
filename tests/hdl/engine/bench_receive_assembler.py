# SPDX-License-Identifier: BSD-2-Clause
"""cocotb bench of ReceiveAssembler: orders, waiting beats and payload in, frames and reports out.

Parameter ``lanes``.
"""

from __future__ import annotations

import random

import cocotb
from cocotb.triggers import Timer
from receive_frames import (
    LANES,
    QUEUE_LATENCY,
    Frame,
    FrameSink,
    Offer,
    beats,
    long_mixture,
    mixture,
    streams_without_gap,
)

from inceptionn.hdl.control.counters import frame_report
from inceptionn.hdl.engine.receive_decision import ReceiveOrder
from inceptionn.hdl.engine.receive_layout import wire_beat

WireBeat = wire_beat(LANES)
LATENCY = 5
"""Cycles from an order, after the one in which it is taken, to the output queue."""


class TB(FrameSink):
    """Three inputs that offer what they have, and a sink."""

    async def reset(self) -> None:
        for name in ("orders_valid", "beats_valid", "payload_valid", "m_axis_tready"):
            getattr(self.dut, name).value = 0
        await super().reset()

    async def run(
        self, frames: list[Frame], *, offer: tuple[float, float, float] = (1, 1, 1), take=1.0
    ) -> None:
        """Runs frames through and checks each, and its report.

        ``offer``: probability in each cycle that the next order, waiting beat, payload beat shows; ``take``:
        that the sink is ready.
        """
        dut = self.dut
        orders = [{"orders_payload": ReceiveOrder.as_shape().const(f.order).as_bits()} for f in frames]
        waiting = [{"beats_payload": WireBeat.const(beat).as_bits()} for f in frames for beat in f.wire_beats]
        payload = [{"payload_payload": burst} for frame in frames for burst in frame.payload_bursts]
        inputs = (
            Offer(dut, "orders_valid", "orders_ready", orders),
            Offer(dut, "beats_valid", "beats_ready", waiting),
            Offer(dut, "payload_valid", "payload_ready", payload),
        )
        reports: list[int] = []
        out = 0
        limit = self.now + 300 + 30 * sum(beats(max(f.report[1:])) for f in frames)
        self.begun.clear()
        self.ended.clear()
        while out < len(frames):
            assert self.now < limit, f"hang: {out} of {len(frames)} frames out after {self.now} cycles"
            for source, probability in zip(inputs, offer, strict=True):
                source.show(probability)
            ready = random.random() < take
            dut.m_axis_tready.value = ready
            await Timer(1, "ns")
            for source in inputs:
                source.taken()
            if ready and self.read("m_axis_tvalid"):
                out += self.collect(frames[out])
            if self.read("reports_valid"):
                reports.append(self.read("reports_payload"))
            await self.cycle()
        dut.orders_valid.value = dut.beats_valid.value = dut.payload_valid.value = 0
        for _ in range(20):
            if self.read("reports_valid"):
                reports.append(self.read("reports_payload"))
            await self.cycle()
            assert not self.read("m_axis_tvalid"), "a beat too many"
        assert not any(source.items for source in inputs), "something was left over"
        assert len(reports) == len(frames)
        for frame, word in zip(frames, reports, strict=True):
            report = frame_report().from_bits(word)
            found = report.verdict, report.bytes_in, report.bytes_out
            assert found == frame.report, f"{frame.order}: reported {found}, not {frame.report}"
            assert not any(report.counts)


@cocotb.test()
@cocotb.parametrize(
    offer=[(1, 1, 1), (0.2, 1, 1), (1, 0.3, 1), (1, 1, 0.3), (0.5, 0.5, 0.5)], take=[1.0, 0.4]
)
async def mixed(dut, offer, take):
    """Whichever of order, beats and payload comes late, and whatever the sink does."""
    tb = await TB.started(dut)
    await tb.run(mixture(100), offer=offer, take=take)


@cocotb.test()
async def long_frames(dut):
    tb = await TB.started(dut)
    await tb.run(long_mixture())


@cocotb.test()
async def no_gap_between_frames(dut):
    """One output beat per cycle, back to back, whether frames pass or are restored."""
    tb = await TB.started(dut)
    for frames in streams_without_gap():
        await tb.run(frames)
        total = sum(beats(len(frame.leaves[0])) for frame in frames)
        assert tb.span() == total, f"{total} beats took {tb.span()} cycles"


@cocotb.test()
async def latency(dut):
    """From the cycle in which order, beat and payload are there, less the one in which the order is taken."""
    tb = await TB.started(dut)
    for frame in (Frame.passing(300), Frame.restored(100, 100)):
        start = tb.now
        await tb.run([frame])
        assert tb.begun[0] - start <= 1 + LATENCY + QUEUE_LATENCY, f"{tb.begun[0] - start} cycles"
