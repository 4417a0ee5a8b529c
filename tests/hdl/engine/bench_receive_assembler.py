# SPDX-License-Identifier: BSD-2-Clause
"""cocotb bench of ReceiveAssembler: orders, waiting beats and payload in, frames and reports out.

Headers, payloads and how a frame came are drawn independently, so the bench needs no codec. Parameter
``lanes``.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

import cocotb
from cocotb.triggers import Timer
from lockstep import Lockstep

from inceptionn.hdl.control.counters import FrameReport
from inceptionn.hdl.engine.receive_decision import ReceiveOrder
from inceptionn.hdl.engine.receive_layout import wire_beat
from inceptionn.sim.runner import bench_parameters
from inceptionn.wire import Verdict

LANES = bench_parameters().get("lanes", 8)
BURST_BYTES = 4 * LANES
WireBeat = wire_beat(LANES)
FULL = (1 << BURST_BYTES) - 1
LATENCY = 5
"""Cycles from an order, behind the one in which it is taken, to the output queue, which takes two more."""
QUEUE_LATENCY = 2
OTHER_VERDICTS = [v for v in Verdict if v not in (Verdict.COMPRESSED, Verdict.RESTORED, Verdict.BAD)]


def beats(length: int) -> int:
    return -(-length // BURST_BYTES)


@dataclass(frozen=True)
class Frame:
    """A frame as it waits, and what is to become of it."""

    came: bytes
    bad: bool
    short: bool
    order: dict[str, int]
    payload: bytes = b""
    faulty: bool = False

    @classmethod
    def passing(cls, size: int) -> Frame:
        order = {"restore": 0, "verdict": random.choice(OTHER_VERDICTS)}
        for name in ("vlan", "tcp", "payload_at", "total_length", "ip_checksum", "payload_length"):
            order[name] = random.getrandbits(ReceiveOrder.as_shape()[name].width)
        return cls(random.randbytes(size), random.random() < 0.2, random.random() < 0.5, order)

    @classmethod
    def restored(cls, lanes: int, more: int, *, spoilt: float = 0.3) -> Frame:
        """``more``: bytes that came behind the shim."""
        tcp, vlan = random.getrandbits(1), random.getrandbits(1)
        begin = (34 + 4 * vlan) + (4 * random.randint(5, 15) if tcp else 8)
        order = {
            "restore": 1,
            "verdict": 0,
            "vlan": vlan,
            "tcp": tcp,
            "payload_at": begin,
            "total_length": random.getrandbits(16),
            "ip_checksum": random.getrandbits(16),
            "payload_length": 4 * lanes,
        }
        return cls(
            random.randbytes(begin + 8 + more),
            random.random() < spoilt,
            random.random() < spoilt,
            order,
            random.randbytes(4 * lanes),
            random.random() < spoilt,
        )

    @property
    def leaves(self) -> tuple[bytes, bool]:
        """What must come out, and whether it is marked bad."""
        if not self.order["restore"]:
            return self.came, self.bad
        head = bytearray(self.came[: self.order["payload_at"]])
        l3 = 14 + 4 * self.order["vlan"]
        fields = [(l3 + 2, self.order["total_length"]), (l3 + 10, self.order["ip_checksum"])]
        if not self.order["tcp"]:
            fields.append((l3 + 24, (self.order["total_length"] - 20) % (1 << 16)))
        for at, value in fields:
            head[at : at + 2] = value.to_bytes(2, "big")
        return bytes(head) + self.payload, self.bad or self.short or self.faulty

    @property
    def report(self) -> tuple[int, int, int]:
        """Verdict, bytes in, bytes out."""
        verdict = self.order["verdict"]
        if self.order["restore"]:
            verdict = Verdict.MALFORMED if self.short or self.faulty else Verdict.RESTORED
        if self.bad:
            verdict = Verdict.BAD
        return verdict, len(self.came), len(self.leaves[0])


def cut(data: bytes) -> list[bytes]:
    return [data[at : at + BURST_BYTES] for at in range(0, len(data), BURST_BYTES)]


def filled(data: bytes) -> int:
    """The 32 bytes of a beat, noise behind its own."""
    return int.from_bytes(data + random.randbytes(BURST_BYTES - len(data)), "little")


class TB(Lockstep):
    """Three queues in front, a sink behind. What an input offers it offers until it is taken."""

    def __init__(self, dut):
        super().__init__(dut)
        self.begun: list[int] = []
        self.ended: list[int] = []

    async def reset(self) -> None:
        for name in ("order_valid", "wire_valid", "payload_tvalid", "m_axis_tready"):
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
        orders = [ReceiveOrder.as_shape().const(frame.order).as_bits() for frame in frames]
        waiting, payload = [], []
        for frame in frames:
            parts = cut(frame.came)
            for index, part in enumerate(parts):
                last = index == len(parts) - 1
                beat = {
                    "tdata": filled(part),
                    "last": int(last),
                    "bad": int(frame.bad) if last else random.getrandbits(1),
                    "short": int(frame.short) if last else random.getrandbits(1),
                    "ending": len(part) % BURST_BYTES if last else random.randrange(BURST_BYTES),
                }
                waiting.append(WireBeat.const(beat).as_bits())
            parts = cut(frame.payload)
            for index, part in enumerate(parts):
                last = index == len(parts) - 1
                # `tuser` means something with the last beat only.
                user = int(frame.faulty) if last else random.getrandbits(1)
                payload.append((filled(part), FULL >> BURST_BYTES - len(part), int(last), user))
        queues = {"order": orders, "wire": waiting, "payload": payload}
        shown = dict.fromkeys(queues, False)
        came, reports = bytearray(), []
        out = 0
        limit = self.now + 300 + 30 * sum(beats(max(f.report[1:])) for f in frames)
        self.begun.clear()
        self.ended.clear()
        while out < len(frames):
            assert self.now < limit, f"hang: {out} of {len(frames)} frames out after {self.now} cycles"
            for (name, queue), probability in zip(queues.items(), offer, strict=True):
                shown[name] = bool(queue) and (shown[name] or random.random() < probability)
            dut.order_valid.value = shown["order"]
            dut.order.value = orders[0] if shown["order"] else random.getrandbits(len(dut.order))
            dut.wire_valid.value = shown["wire"]
            dut.wire_beat.value = waiting[0] if shown["wire"] else random.getrandbits(len(dut.wire_beat))
            dut.payload_tvalid.value = shown["payload"]
            if shown["payload"]:
                data, keep, last, user = payload[0]
                dut.payload_tdata.value, dut.payload_tkeep.value = data, keep
                dut.payload_tlast.value, dut.payload_tuser.value = last, user
            ready = random.random() < take
            dut.m_axis_tready.value = ready
            await Timer(1, "ns")
            for name, port in (("order", "order_pop"), ("wire", "wire_pop"), ("payload", "payload_tready")):
                if shown[name] and self.read(port):
                    queues[name].pop(0)
                    shown[name] = False
            if ready and self.read("m_axis_tvalid"):
                out += self._collect(came, frames[out])
            if self.read("report_valid"):
                reports.append(self.read("report"))
            await self.cycle()
        dut.order_valid.value = dut.wire_valid.value = dut.payload_tvalid.value = 0
        for _ in range(20):
            if self.read("report_valid"):
                reports.append(self.read("report"))
            await self.cycle()
            assert not self.read("m_axis_tvalid"), "a beat too many"
        assert not any(queues.values()), "something was left behind"
        assert len(reports) == len(frames)
        for frame, word in zip(frames, reports, strict=True):
            report = FrameReport.as_shape().from_bits(word)
            found = report.verdict, report.bytes_in, report.bytes_out
            assert found == frame.report, f"{frame.order}: reported {found}, not {frame.report}"
            assert not any(report.lanes)

    def _collect(self, came: bytearray, frame: Frame) -> int:
        """A beat of ``frame``; 1 if it was its last."""
        if not came:
            self.begun.append(self.now)
        count = self.read("m_axis_tkeep").bit_count()
        came += self.read("m_axis_tdata").to_bytes(BURST_BYTES, "little")[:count]
        if not self.read("m_axis_tlast"):
            assert count == BURST_BYTES
            return 0
        expected, bad = frame.leaves
        assert len(came) == len(expected), f"{frame.order}: {len(came)} bytes, not {len(expected)}"
        wrong = [index for index, (a, b) in enumerate(zip(came, expected, strict=True)) if a != b]
        assert not wrong, f"{frame.order}: {len(wrong)} bytes wrong, the first at {wrong[0]}"
        assert bool(self.read("m_axis_tuser")) == bad, f"{frame.order}: bad is not {bad}"
        came.clear()
        self.ended.append(self.now)
        return 1


async def started(dut) -> TB:
    tb = TB(dut)
    await tb.reset()
    return tb


def mixture(number: int) -> list[Frame]:
    """Passing and restored ones; many so small that the last output beat shares the header's beat."""
    frames = []
    for _ in range(number):
        if random.random() < 0.35:
            frames.append(Frame.passing(random.choice([1, 20, 32, 33, 60, 64, random.randint(1, 300)])))
        else:
            lanes = random.choice([3, 3, 4, 5, random.randint(3, 40), random.randint(3, 100)])
            frames.append(
                Frame.restored(lanes, random.choice([0, 1, 4, 40, 200, random.randint(0, 4 * lanes)]))
            )
    return frames


@cocotb.test()
@cocotb.parametrize(
    offer=[(1, 1, 1), (0.2, 1, 1), (1, 0.3, 1), (1, 1, 0.3), (0.5, 0.5, 0.5)], take=[1.0, 0.4]
)
async def mixed(dut, offer, take):
    """Whichever of order, beats and payload comes late, and whatever the sink does."""
    tb = await started(dut)
    await tb.run(mixture(100), offer=offer, take=take)


@cocotb.test()
async def long_frames(dut):
    tb = await started(dut)
    frames = [Frame.restored(2304, 600), Frame.passing(9000), Frame.restored(3, 4000), Frame.passing(1)]
    frames += [Frame.restored(2304, 9200, spoilt=0), Frame.passing(70_000), Frame.passing(32)]
    await tb.run(frames)


@cocotb.test()
async def no_gap_between_frames(dut):
    """One output beat per cycle, back to back, whether frames pass or are restored."""
    tb = await started(dut)
    for frames in (
        [Frame.passing(size) for size in [32] * 30 + [60] * 30 + [300] * 10],
        [Frame.restored(lanes, 4 * lanes // 3) for lanes in [365] * 8 + [100] * 10],
    ):
        await tb.run(frames)
        total = sum(beats(len(frame.leaves[0])) for frame in frames)
        cycles = tb.ended[-1] - tb.begun[0] + 1
        assert cycles == total, f"{total} beats took {cycles} cycles"


@cocotb.test()
async def latency(dut):
    """From the cycle in which order, beat and payload are there, less the one in which the order is taken."""
    tb = await started(dut)
    for frame in (Frame.passing(300), Frame.restored(100, 100)):
        start = tb.now
        await tb.run([frame])
        assert tb.begun[0] - start <= 1 + LATENCY + QUEUE_LATENCY, f"{tb.begun[0] - start} cycles"
