# SPDX-License-Identifier: BSD-2-Clause
"""cocotb bench of FrameCounters against sums: parameters ``direction``, ``codec``, ``bf16``, ``start``."""

import random
from collections import Counter, deque
from collections.abc import Callable

from cocotb.triggers import ClockCycles, FallingEdge, RisingEdge

from inceptionn.hdl.codec.codecs import codec_of
from inceptionn.hdl.codec.shape import EngineShape
from inceptionn.hdl.control.counters import counter_read_latency, frame_report
from inceptionn.hdl.control.registers import (
    COUNTER_SLOTS,
    SLOT_BF16,
    SLOT_BYTES_IN,
    SLOT_BYTES_OUT,
    SLOT_FRAMES_IN,
    SLOT_FRAMES_OUT,
    SLOT_LANES,
    VERDICTS,
    registers_of,
)
from inceptionn.sim.runner import bench_parameters
from inceptionn.sim.testbench import TestBench
from inceptionn.wire import Verdict

DIRECTION = bench_parameters()["direction"]
CODEC = codec_of(bench_parameters().get("codec", "paper"))
BF16 = bench_parameters().get("bf16", False)
SHAPE = EngineShape.of(bench_parameters().get("lanes", 8), CODEC.name, BF16)
REPORT_SPACING = 16 if SHAPE.serial else 1
"""Fewest cycles from one report to the next."""
READ_LATENCY = counter_read_latency(SHAPE)
START = bench_parameters().get("start", 0)
REGISTERS = registers_of(CODEC.name, BF16)
SLOTS = sorted(REGISTERS.counters(DIRECTION))
DRAIN = 114 if SHAPE.serial else 112
"""Cycles after which an event is in its counter."""
READ_SPACING = 3
"""Fewest cycles from one read strobe to the next."""
CLEARING = 77 if SHAPE.serial else 75
"""Cycles that clearing takes while nobody reads."""
MAX_BYTES = (1 << 17) - 1
MAX_LANES = (1 << 12) - 1
MAX_COUNT = (1 << CODEC.count_bits) - 1
CLASSES = range(len(CODEC.spec.classes))
REPORT = {field: place.offset for field, place in frame_report(SHAPE)}
"""Where a report's fields begin; Amaranth works it out at each look."""


def random_events(source: random.Random) -> dict[str, int | tuple[int, ...]]:
    """Anything, in nearly every cycle, also verdicts that the direction cannot have."""
    return {
        "reports_valid": source.random() < 0.9,
        "verdict": source.randrange(32) if source.random() < 0.2 else source.choice(list(Verdict)),
        "bytes_in": source.choice((0, 1, MAX_BYTES, source.getrandbits(17))),
        "bytes_out": source.choice((0, 1, MAX_BYTES, source.getrandbits(17))),
        "counts": tuple(source.choice((0, MAX_COUNT, source.randint(0, MAX_COUNT))) for _ in CLASSES),
        "lanes": source.choice((0, MAX_LANES, source.getrandbits(12))),
        "bf16": source.randrange(2),
        "frame_in": source.randrange(2),
        "frame_out": source.randrange(2),
    }


def largest_events(verdict: Verdict) -> dict[str, int | tuple[int, ...]]:
    """Return the most that a cycle can bring, always to the same counters."""
    sizes = {"bytes_in": MAX_BYTES, "bytes_out": MAX_BYTES, "lanes": MAX_LANES, "bf16": int(BF16)}
    sizes["counts"] = (MAX_COUNT,) * len(CLASSES)
    return {"reports_valid": 1, "verdict": verdict, **sizes, "frame_in": 1, "frame_out": 1}


class TB(TestBench):
    """Drives events and reads, keeps the sums, and checks each read when its data are due."""

    def __init__(self, dut):
        super().__init__(dut)
        self.sums: Counter[int] = Counter()
        self.past: deque[Counter[int]] = deque(maxlen=DRAIN + READ_LATENCY)
        self.reads: deque[tuple[int, int]] = deque()
        self.cycle = 0
        self.reported = -REPORT_SPACING
        self.checked = 0

    async def reset(self) -> None:
        events = ("reports_payload", "reports_valid", "frame_in", "frame_out", "clear")
        for name in (*events, "read_slot", "read_strobe"):
            getattr(self.dut, name).value = 0
        await super().reset(3, 1)
        assert int(self.dut.read_busy.value), "not busy in reset, though the memory is not cleared"
        await RisingEdge(self.dut.aclk)
        self.clear_model()

    def clear_model(self) -> None:
        self.sums.clear()
        self.past.clear()
        self.reads.clear()

    async def step(self, events=None, read: int | None = None, clear: bool = False) -> None:
        """One cycle: these events, a read of this slot, a clear. A report too soon is left out."""
        dut, events = (
            self.dut,
            events
            or largest_events(Verdict.BAD) | dict.fromkeys(("reports_valid", "frame_in", "frame_out"), 0),
        )
        if self.cycle < self.reported + REPORT_SPACING:
            events = {**events, "reports_valid": 0}
        if events["reports_valid"]:
            self.reported = self.cycle
        counts = sum(count << i * CODEC.count_bits for i, count in enumerate(events["counts"]))
        dut.reports_payload.value = sum(
            (counts if name == "counts" else events[name]) << offset for name, offset in REPORT.items()
        )
        for name in ("reports_valid", "frame_in", "frame_out"):
            getattr(dut, name).value = events[name]
        dut.clear.value = clear
        dut.read_strobe.value = read is not None
        dut.read_slot.value = 0 if read is None else read
        await RisingEdge(dut.aclk)
        self.cycle += 1
        self.past.append(self.sums.copy())
        if read is not None:
            self.reads.append((self.cycle, read))
        amounts = {SLOT_FRAMES_IN: events["frame_in"], SLOT_FRAMES_OUT: events["frame_out"]}
        if events["reports_valid"]:
            if events["verdict"] in VERDICTS[DIRECTION]:
                amounts[events["verdict"]] = 1
            amounts |= {SLOT_BYTES_IN: events["bytes_in"], SLOT_BYTES_OUT: events["bytes_out"]}
            bf16 = BF16 and events["bf16"]
            if BF16:
                amounts[SLOT_BF16] = bf16
            if DIRECTION == "tx":
                amounts |= {REGISTERS.class_slot(i): events["counts"][i] for i in CLASSES}
                if not CODEC.spec.counts_lanes:
                    amounts[SLOT_LANES] = 0 if bf16 else events["lanes"]
                    amounts[SLOT_BF16 + 1] = 2 * bf16 * events["lanes"]
        self.sums.update(amounts)
        if self.reads and self.cycle == self.reads[0][0] + READ_LATENCY:
            # Sampled at the edge that ends the cycle in which the data are there.
            slot = self.reads.popleft()[1]
            value = (int(dut.read_data.value) - START) % 2**64
            assert self.past[0][slot] <= value <= self.sums[slot], f"slot {slot} at {self.cycle}: {value}"
            self.checked += 1
        if clear:
            self.clear_model()

    async def idle(self, cycles: int) -> None:
        for _ in range(cycles):
            await self.step()

    async def check_all(self) -> None:
        """After everything has drained, each counter holds exactly its sum."""
        await self.idle(DRAIN)
        for slot in SLOTS:
            await self.step(read=slot)
            await self.idle(READ_SPACING - 1)
        await self.idle(READ_LATENCY)
        assert not self.reads


async def run(tb: TB, cycles: int, events: Callable[[], dict], spacing: Callable[[], int]) -> None:
    """Events in every cycle and reads ``spacing()`` cycles apart, round the slots."""
    slot, wait = 0, 0
    for _ in range(cycles):
        read = None
        if wait == 0:
            read, wait = SLOTS[slot], spacing()
            slot = (slot + 1) % len(SLOTS)
        wait -= 1
        await tb.step(events(), read)


@TB.test(timeout_time=200, timeout_unit="us")
async def random_reports(tb):
    """Random reports on nearly every cycle, with reads in between."""
    await tb.idle(CLEARING)
    source = random.Random(1)
    await run(tb, 6000, lambda: random_events(source), lambda: source.randint(READ_SPACING, 12))
    await tb.check_all()
    assert tb.checked > 6000 // 12


@TB.test(timeout_time=200, timeout_unit="us")
async def largest_reports(tb):
    """Report the largest amounts in every cycle to the same counters, read as often as allowed."""
    await tb.idle(CLEARING)
    for verdict in VERDICTS[DIRECTION]:
        events = largest_events(verdict)
        await run(tb, 5 * DRAIN // 2, lambda events=events: events, lambda: READ_SPACING)
    await tb.check_all()


@TB.test(
    skip=CODEC.name != "paper" or SHAPE.serial, timeout_time=300, timeout_unit="us"
)  # the adder is the same
async def carry_into_the_high_half(tb):
    """Byte counters run through 2^32, and every read across it is whole."""
    await tb.idle(CLEARING)
    events = largest_events(VERDICTS[DIRECTION][0])
    await run(tb, (1 << 32) // MAX_BYTES + 3 * DRAIN, lambda: events, lambda: 5)
    await tb.check_all()
    assert tb.sums[SLOT_BYTES_IN] > 1 << 32


@TB.test(timeout_time=200, timeout_unit="us")
async def clear_between_reports(tb):
    """Clear in a stream of events: those of its cycle and before are gone, all later ones count."""
    source = random.Random(2)
    for _ in range(12):
        for _ in range(source.randint(1, 3 * DRAIN)):
            await tb.step(random_events(source))
        for _ in range(source.choice((1, 1, 2))):
            await tb.step(random_events(source), clear=True)
        for cycles in range(2 * DRAIN):
            await tb.step(random_events(source))
            if cycles > 1 and not int(tb.dut.read_busy.value):
                break
        assert 2 < cycles <= CLEARING
        await tb.check_all()


@TB.test(timeout_time=400, timeout_unit="us")
async def zero_as_soon_as_not_busy(tb):
    """Check that a read in the very cycle in which ``busy`` falls finds zero.

    This holds whichever slot was cleared last.
    """
    dut = tb.dut
    events = largest_events(VERDICTS[DIRECTION][0])
    for slot in (SLOT_BYTES_IN, SLOT_FRAMES_OUT):
        for delay in range(2 * COUNTER_SLOTS):
            for _ in range(DRAIN + delay):
                await tb.step(events)
            await tb.step(clear=True)
            await tb.step()
            await FallingEdge(dut.aclk)
            while int(dut.read_busy.value):
                await RisingEdge(dut.aclk)
                await FallingEdge(dut.aclk)
            dut.read_slot.value = slot
            dut.read_strobe.value = 1
            await RisingEdge(dut.aclk)
            dut.read_strobe.value = 0
            await ClockCycles(dut.aclk, READ_LATENCY)
            assert int(dut.read_data.value) == START, f"slot {slot}, {delay} cycles on"


@TB.test(timeout_time=200, timeout_unit="us")
async def reports_right_after_reset(tb):
    """Check that what is reported while the memory is still being cleared counts."""
    source = random.Random(3)
    for _ in range(CLEARING):
        await tb.step(random_events(source))
    assert not int(tb.dut.read_busy.value)
    await tb.check_all()
    await tb.reset()
    await tb.check_all()
