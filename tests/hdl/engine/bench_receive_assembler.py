# SPDX-License-Identifier: BSD-2-Clause
"""cocotb bench of ReceiveAssembler: orders, waiting beats and payload in, frames and reports out.

Headers, payloads and how a frame came are drawn independently, so the bench needs no codec. Its parts,
ReceiveLayout and PayloadMerge, are checked here, too. Parameter ``lanes``.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import cocotb
from chosen_width import WIDTH
from cocotb.triggers import FallingEdge, Timer
from lockstep import Lockstep

from inceptionn.hdl.control.counters import frame_report
from inceptionn.hdl.engine.receive_decision import ReceiveOrder
from inceptionn.hdl.engine.receive_layout import restored_burst, wire_beat
from inceptionn.wire import SHIM_BYTES, Verdict

BEAT_BYTES = WIDTH.bytes
OTHER_VERDICTS = [v for v in Verdict if v not in (Verdict.COMPRESSED, Verdict.RESTORED, Verdict.BAD)]


def beats(length: int) -> int:
    """Beats of ``length`` bytes."""
    return -(-length // BEAT_BYTES)


def cut(data: bytes) -> list[bytes]:
    """Return the bytes of each beat."""
    return [data[at : at + BEAT_BYTES] for at in range(0, len(data), BEAT_BYTES)]


def filled(data: bytes) -> int:
    """Return a beat's ``tdata``, with noise after ``data``."""
    return int.from_bytes(data + random.randbytes(BEAT_BYTES - len(data)), "little")


@dataclass(frozen=True)
class Frame:
    """A frame as it came from the wire, its order, and its decoded payload."""

    came: bytes
    bad: bool
    short: bool
    order: dict[str, int]
    payload: bytes = b""
    faulty: bool = False

    @classmethod
    def passing(cls, size: int) -> Frame:
        """``size``: bytes."""
        order = {"restore": 0, "verdict": random.choice(OTHER_VERDICTS)}
        for name in ("vlan", "tcp", "payload_at", "total_length", "ip_checksum", "payload_length"):
            order[name] = random.getrandbits(ReceiveOrder.as_shape()[name].width)
        return cls(random.randbytes(size), random.random() < 0.2, random.random() < 0.5, order)

    @classmethod
    def restored(cls, lanes: int, more: int, *, spoilt: float = 0.3) -> Frame:
        """``lanes``: fp32 values of the payload; ``more``: bytes that came after the shim."""
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
    def header(self) -> bytes:
        """The patched header of a restored frame."""
        head = bytearray(self.came[: self.order["payload_at"]])
        l3 = 14 + 4 * self.order["vlan"]
        fields = [(l3 + 2, self.order["total_length"]), (l3 + 10, self.order["ip_checksum"])]
        if not self.order["tcp"]:
            fields.append((l3 + 24, (self.order["total_length"] - 20) % (1 << 16)))
        for at, value in fields:
            head[at : at + 2] = value.to_bytes(2, "big")
        return bytes(head)

    @property
    def leaves(self) -> tuple[bytes, bool]:
        """What must come out, and whether it is marked bad."""
        if not self.order["restore"]:
            return self.came, self.bad
        return self.header + self.payload, self.bad or self.short or self.faulty

    @property
    def report(self) -> tuple[int, int, int]:
        """Verdict, bytes in, bytes out."""
        verdict = self.order["verdict"]
        if self.order["restore"]:
            verdict = Verdict.MALFORMED if self.short or self.faulty else Verdict.RESTORED
        if self.bad:
            verdict = Verdict.BAD
        return verdict, len(self.came), len(self.leaves[0])

    @cached_property
    def wire_beats(self) -> list[dict[str, int]]:
        """The frame's waiting beats, with noise where a field means nothing."""
        made = [
            {
                "tdata": filled(part),
                "last": 0,
                "bad": random.getrandbits(1),
                "short": random.getrandbits(1),
                "ending": random.randrange(BEAT_BYTES),
            }
            for part in cut(self.came)
        ]
        ending = len(self.came) % BEAT_BYTES
        made[-1] |= {"last": 1, "bad": int(self.bad), "short": int(self.short), "ending": ending}
        return made

    @property
    def payload_bursts(self) -> list[dict[str, int]]:
        """The payload as the Decompressor sends it; only the last burst's ``malformed`` counts."""
        made = [{"data": filled(part), "malformed": random.getrandbits(1)} for part in cut(self.payload)]
        if made:
            made[-1]["malformed"] = int(self.faulty)
        return made


def mixture(number: int) -> list[Frame]:
    """Return passing and restored frames.

    Many are so small that the last output beat shares the header's beat.
    """
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


def long_mixture() -> list[Frame]:
    """Return frames of the longest blocks, and frames longer than any that may be restored."""
    frames = [Frame.restored(2304, 600), Frame.passing(9000), Frame.restored(3, 4000), Frame.passing(1)]
    # Numbers of lanes with any one bit set, and of beats about 512 and with bit 10 set.
    frames += [Frame.restored(lanes, 100) for lanes in (*(4 << bit for bit in range(10)), 1500, 2047)]
    frames += [Frame.passing(BEAT_BYTES * number + 1) for number in (510, 511, 512, 1563)]
    return frames + [Frame.restored(2304, 9200, spoilt=0), Frame.passing(70_000), Frame.passing(32)]


def streams_without_gap() -> list[list[Frame]]:
    """Frames that leave back to back, one output beat per cycle."""
    return [
        [Frame.passing(size) for size in [32] * 30 + [60] * 30 + [300] * 10],
        [Frame.restored(lanes, 4 * lanes // 3) for lanes in [365] * 8 + [100] * 10],
        # As many beats from the wire as restored.
        [Frame.restored(365, 1460 - SHIM_BYTES - saved) for saved in (4, 2, 1) * 6],
    ]


ITEMS: dict[str, Callable[[Frame], list[dict[str, int]]]] = {
    "orders": lambda frame: [frame.order],
    "beats": lambda frame: frame.wire_beats,
    "payload": lambda frame: frame.payload_bursts,
}
"""The items of each stream for a frame: fields of the payload."""
LAYOUTS = {
    "orders_payload": ReceiveOrder.as_shape(),
    "beats_payload": wire_beat(WIDTH),
    "payload_payload": restored_burst(WIDTH),
}
LATENCY = 8
"""Cycles from a frame's inputs until the sink takes the first of it, two of them in the output queue."""


class TB(Lockstep):
    """Offers the items of frames on the three inputs, and looks at frames and reports in each cycle."""

    def __init__(self, dut: Any):
        super().__init__(dut, layouts=LAYOUTS)
        self.frames: list[Frame] = []
        self.begun: list[int] = []
        """The cycle in which the sink took the first item of each frame."""
        self.ended: list[int] = []
        """The cycle in which it took the last one."""
        self.told = 0
        """Frames of which the component has told how they ended."""
        self._came = bytearray()

    async def reset(self) -> None:
        for name in (*(f"{stream}_valid" for stream in ITEMS), "m_axis_tready"):
            getattr(self.dut, name).value = 0
        await super().reset()

    async def run(self, frames: list[Frame], offer: tuple[float, ...] = (1, 1, 1), take: float = 1.0) -> None:
        """Run frames through and check what comes out in every cycle.

        ``offer``: probability in each cycle that the next item of each stream shows;
        ``take``: that the sink is ready.
        """
        streams = {name: deque(i for frame in frames for i in of(frame)) for name, of in ITEMS.items()}
        probabilities = dict(zip(ITEMS, offer, strict=True))
        shown: set[str] = set()
        self.frames, self.begun, self.ended, self.told = frames, [], [], 0
        limit = self.now + 300 + 30 * sum(beats(max(frame.report[1:])) for frame in frames)
        while len(self.ended) < len(frames) or self.told < len(frames):
            progress = f"{len(self.ended)} of {len(frames)} frames out, {self.told} told"
            assert self.now < limit, f"hang: {progress}"
            for name, items in streams.items():
                # What is shown stays until it is taken.
                if name not in shown:
                    if items and random.random() < probabilities[name]:
                        shown.add(name)
                    self.write(f"{name}_payload", items[0] if name in shown else {})
                getattr(self.dut, f"{name}_valid").value = name in shown
            ready = random.random() < take
            self.dut.m_axis_tready.value = ready
            await Timer(1, "ns")
            taken = {name for name in shown if self.read(f"{name}_ready")}
            shown -= taken
            for name in taken:
                streams[name].popleft()
            if ready and self.read("m_axis_tvalid"):
                self.take()
            if self.read("reports_valid"):
                self._check_report()
            await self.cycle()
        for name in ITEMS:
            getattr(self.dut, f"{name}_valid").value = 0
        for _ in range(20):
            await self.cycle()
            for name in ("m_axis_tvalid", "reports_valid"):
                assert not self.read(name), f"{name} after the last frame"
        assert not any(streams.values()), "something was left over"

    def _check_report(self) -> None:
        report = frame_report().from_bits(self.read("reports_payload"))
        frame = self.frames[self.told]
        found = report.verdict, report.bytes_in, report.bytes_out
        assert found == frame.report, f"{frame.order}: reported {found}, not {frame.report}"
        assert not any(report.counts)
        self.told += 1

    def take(self) -> None:
        """Take a beat of a frame from ``m_axis``."""
        came, frame = self._came, self.frames[len(self.ended)]
        if not came:
            self.begun.append(self.now)
        count = self.read("m_axis_tkeep").bit_count()
        came += self.read("m_axis_tdata").to_bytes(BEAT_BYTES, "little")[:count]
        if not self.read("m_axis_tlast"):
            assert count == BEAT_BYTES
            return
        expected, bad = frame.leaves
        assert len(came) == len(expected), f"{frame.order}: {len(came)} bytes, not {len(expected)}"
        wrong = [index for index, (a, b) in enumerate(zip(came, expected, strict=True)) if a != b]
        assert not wrong, f"{frame.order}: {len(wrong)} bytes wrong, the first at {wrong[0]}"
        assert bool(self.read("m_axis_tuser")) == bad, f"{frame.order}: bad is not {bad}"
        came.clear()
        self.ended.append(self.now)


@TB.test()
@cocotb.parametrize(
    offer=[(1, 1, 1), (0.2, 1, 1), (1, 0.3, 1), (1, 1, 0.3), (0.5, 0.5, 0.5)], take=[1.0, 0.4]
)
async def mixed(tb, offer, take):
    """Whichever of the inputs comes late, and whatever the sink does."""
    await tb.run(mixture(100), offer, take)


@TB.test()
async def long_frames(tb):
    await tb.run(long_mixture())


@TB.test()
async def no_gap_between_frames(tb):
    """One output beat per cycle, back to back, whether frames pass or are restored."""
    for frames in streams_without_gap():
        await tb.run(frames)
        total = sum(beats(len(frame.leaves[0])) for frame in frames)
        cycles = tb.ended[-1] - tb.begun[0] + 1
        assert cycles == total, f"{total} beats took {cycles} cycles"


@TB.test()
async def reset_in_mid_run(tb):
    """Nothing of the frames inside is left, wherever they were."""
    for cycles in (*range(1, 30), 100):
        running = cocotb.start_soon(tb.run(mixture(20)))
        for _ in range(cycles):
            await FallingEdge(tb.dut.aclk)
        running.cancel()
        await tb.reset()
        tb._came.clear()
        await tb.run(mixture(3))


@TB.test()
async def latency(tb):
    """Of an idle component."""
    for frame in (Frame.passing(300), Frame.restored(100, 100)):
        start = tb.now
        await tb.run([frame])
        assert tb.begun[0] - start == LATENCY, f"{tb.begun[0] - start} cycles"
