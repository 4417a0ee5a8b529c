# SPDX-License-Identifier: BSD-2-Clause
"""Frame, byte, verdict and lane counters of one engine."""

from functools import cache, reduce
from operator import or_
from typing import Any, get_args

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from inceptionn.wire import MAX_LANES

from ..codec.shape import USUAL, EngineShape
from ..parts.memory import BlockRam, LutRam
from ..parts.pipeline import Pipeline
from .registers import (
    COUNTER_SLOTS,
    SLOT_BF16,
    SLOT_BYTES_IN,
    SLOT_BYTES_OUT,
    SLOT_FRAMES_IN,
    SLOT_FRAMES_OUT,
    SLOT_LANES,
    VERDICTS,
    Direction,
    registers_of,
)

COUNTER_WIDTH = 64
HALF = COUNTER_WIDTH // 2
_MOST_REPORTS = 7
"""Reports of an engine of one lane between two visits of the sweep, of which it makes one in 16 cycles."""


def counter_ram(shape: EngineShape) -> type[BlockRam]:
    """Return the kind of memory of the sums: block RAM, of which a part for engines of one lane has some."""
    return BlockRam if shape.serial else LutRam


def counter_read_latency(shape: EngineShape) -> int:
    """Return the cycles from :class:`CounterRead`'s ``strobe`` to ``data``."""
    return 4 + counter_ram(shape).LATENCY


@cache
def frame_report(shape: EngineShape = USUAL) -> data.StructLayout:
    """Return the layout of an engine's report on one frame, given once, when its verdict is known.

    ``verdict``: :class:`~inceptionn.wire.frames.Verdict`. ``bytes_in``, ``bytes_out``: frame length at the
    engine's input and output, in bytes from the destination MAC address to the last data byte (no FCS),
    modulo 2^17. ``counts``: the classes that the codec counts in the block. For the paper's, lanes by
    :class:`~inceptionn.wire.paper.Tag`, absent lanes of the last group not counted (so they add up to payload
    / 4); for planes, groups by code, and ``lanes`` is payload / 4. They are all zero unless the verdict is
    ``COMPRESSED``. With ``bf16`` there is a bit ``bf16``: a compressed or restored frame has bf16 lanes.
    """
    codec = shape.codec
    return data.StructLayout(
        {
            "verdict": 5,
            "bytes_in": 17,
            "bytes_out": 17,
            "counts": data.ArrayLayout(codec.count_bits, len(codec.spec.classes)),
            **({} if codec.spec.counts_lanes else {"lanes": MAX_LANES.bit_length()}),
            **({"bf16": 1} if shape.bf16 else {}),
        }
    )


class CounterRead(wiring.Signature):
    """Port that reads one direction's counters, seen from the reader."""

    def __init__(self) -> None:
        super().__init__(
            {
                #: Which counter: `counters` of :class:`~inceptionn.hdl.control.registers.NicRegisters`.
                "slot": Out(range(COUNTER_SLOTS)),
                "strobe": Out(1),  #: Read now; at most every third cycle.
                #: The counter, all bits of one moment, for one cycle, :func:`counter_read_latency` cycles
                #: after ``strobe``.
                "data": In(COUNTER_WIDTH),
                "busy": In(1, init=1),  #: The counters are being cleared: some may not read as zero yet.
            }
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CounterRead)

    def __repr__(self) -> str:
        return "CounterRead()"


class FrameCounters(wiring.Component):
    """All 64-bit counters of one engine.

    Accepts a report, a frame in and a frame out in every cycle; of an engine of one lane, a report in 16
    cycles. An event is in its counter at most 114 cycles later. After reset, and after ``clear``, the
    counters are zero when ``busy`` falls (about 75 cycles).
    Events before ``clear`` and in its cycle are not counted; later ones are. Counters wrap at 2^64. A verdict
    that the direction cannot reach adds to the byte counters only.

    Parameters
    ----------
    direction : ``"tx"`` or ``"rx"``
        Which verdicts there are, and whether lanes are counted (``"tx"`` only).
    shape : :class:`EngineShape`
        With ``bf16``, frames with bf16 lanes are counted apart.
    start : :class:`int`
        What a cleared counter holds; not 0 in a bench that looks at the upper bits, too.
    """

    def __init__(self, direction: Direction, shape: EngineShape = USUAL, start: int = 0):
        if direction not in get_args(Direction):
            raise ValueError(f"direction must be one of {', '.join(get_args(Direction))}, not {direction!r}")
        self.direction: Direction = direction
        self.shape = shape
        self.start = start
        self.registers = registers_of(shape.codec.name, shape.bf16)
        self.names = self.registers.counters(direction)
        super().__init__(
            {
                #: One per frame.
                "reports": In(stream.Signature(frame_report(shape), always_ready=True)),
                "frame_in": In(1),  #: The last beat of a frame enters the engine in this cycle.
                "frame_out": In(1),  #: The last beat of a frame leaves the engine in this cycle.
                "clear": In(1),  #: Set all counters to zero.
                "read": In(CounterRead()),  #: For the registers.
            }
        )

    def elaborate(self, platform: Any) -> Module:
        # Sweep: the 64-bit sums are in one LUT memory with one adder. Each event is first counted in a small
        # *pending* register of its own. The sweep visits one slot per cycle. It takes the pending amount (and
        # leaves zero or the event of that cycle), adds it to the sum and writes the sum back. A read uses the
        # memory's port for one cycle, in which the sweep pauses.
        m = Module()

        # The register bank may be far away, so its requests are registered here first. A reset clears, too,
        # in the cycle after it. So neither events nor what is pending need a reset of their own.
        clear = Signal(init=1)
        self.probes = {"clears": clear}
        m.d.sync += clear.eq(self.clear)
        asked = Pipeline(m, "asked_", control={"strobe", "slot"})
        asked.stage(strobe=self.read.strobe, slot=self.read.slot)
        turn = Signal(COUNTER_SLOTS, init=1)
        slot = Signal(range(COUNTER_SLOTS))
        # Visits left that start from zero instead of from the slot's sum.
        unclear = Signal(range(COUNTER_SLOTS + 1), init=COUNTER_SLOTS)
        # `sweep`: a slot is visited, the one whose bit in `visited` is set. Each pending register has its own
        # bit beside it; no signal goes to them all.
        sweep = Signal(init=1)
        visited = Signal.like(turn)
        turn_next = Signal.like(turn)
        m.d.comb += turn_next.eq(Mux(sweep, turn.rotate_left(1), turn))
        m.d.sync += [
            turn.eq(turn_next),
            sweep.eq(~asked.strobe),
            visited.eq(Mux(asked.strobe, 0, turn_next)),
        ]
        asked.stage()
        with m.If(sweep):
            m.d.sync += slot.eq(slot + 1)
            with m.If(unclear.any()):
                m.d.sync += unclear.eq(unclear - 1)
        with m.If(clear):
            m.d.sync += unclear.eq(COUNTER_SLOTS)

        # Stage 1: address and amount. Next, after the RAM's latency: the old sum. Two more: low and high half
        # of the new sum.
        p = Pipeline(m, control={"add"})
        m.submodules.sums = sums = counter_ram(self.shape)(COUNTER_WIDTH, COUNTER_SLOTS)
        p.stage(
            slot=Mux(sweep, slot, asked.slot),
            amount=self._pending(m, visited, clear),
            add=sweep,
            zero=sweep & unclear.any(),
        )
        address = p.slot
        m.d.comb += sums.read_address.eq(address)
        p.until(1 + sums.LATENCY)
        found = Signal(COUNTER_WIDTH)
        p.stage(sum=Mux(p.zero, self.start, found))
        m.d.comb += self.read.data.eq(p.sum)
        p.stage(low=p.sum[:HALF] + p.amount, high=p.sum[HALF:])
        p.stage(low=p.low[:HALF], high=(p.high + p.low[HALF])[:HALF])
        m.d.comb += [
            sums.write_address.eq(p.slot),
            sums.write_data.eq(Cat(p.low, p.high)),
            sums.write.eq(p.add),
        ]
        # A block RAM does not say what it holds where it is written: then what is written is the answer.
        if sums.LATENCY:
            w = Pipeline(m, "written_", control={"here"})
            w.let(here=p.add & (p.slot == address), sum=sums.write_data)
            w.until(sums.LATENCY)
            m.d.comb += found.eq(Mux(w.here, w.sum, sums.read_data))
        else:
            m.d.comb += found.eq(sums.read_data)

        # The last cleared slot is written four cycles after its visit, which is when `busy` lets a read's
        # strobe come that reaches the memory in the next cycle. A RAM's latency delays the write alone.
        clearing = Signal()
        m.d.comb += clearing.eq(clear | unclear.any())
        busy = clearing
        for number in range(sums.LATENCY):
            late = Signal(name=f"clearing_{number}", init=1)
            m.d.sync += late.eq(busy)
            busy = late | clearing
        m.d.sync += self.read.busy.eq(busy)
        return m

    def _pending(self, m: Module, visited: Signal, clear: Signal) -> Value:
        """Collect each slot's events until its visit; return the amount of the one that is visited."""
        # Events between two visits of the sweep: one per cycle, for all slots and half as many reads.
        events = exact_log2(COUNTER_SLOTS) + 1
        reported = _MOST_REPORTS.bit_length() if self.shape.serial else events
        taken = []
        for number, amount in self._amounts(m).items():
            name = self.names[number].name.lower()
            of_report = number not in (SLOT_FRAMES_IN, SLOT_FRAMES_OUT)
            bits = len(amount) + (reported if of_report else events) - (len(amount) == 1)
            pending = Signal(bits, name=f"pending_{name}", reset_less=True)
            with m.If(clear):
                m.d.sync += pending.eq(0)
            with m.Else():
                m.d.sync += pending.eq(Mux(visited[number], 0, pending) + amount)
            taken.append(Mux(visited[number], pending, 0))
        return reduce(or_, taken)

    def _amounts(self, m: Module) -> dict[int, Signal]:
        """Return, by slot number, the amount for its counter in this cycle, from flip-flops."""
        events: dict[int, Any] = {
            verdict: self.reports.valid & (self.reports.payload.verdict == verdict)
            for verdict in VERDICTS[self.direction]
        }
        events[SLOT_FRAMES_IN] = self.frame_in
        events[SLOT_FRAMES_OUT] = self.frame_out
        events[SLOT_BYTES_IN] = Mux(self.reports.valid, self.reports.payload.bytes_in, 0)
        events[SLOT_BYTES_OUT] = Mux(self.reports.valid, self.reports.payload.bytes_out, 0)
        valid, report = self.reports.valid, self.reports.payload
        if self.shape.bf16:
            events[SLOT_BF16] = valid & report.bf16
        if self.direction == "tx":
            if not self.shape.codec.spec.counts_lanes:
                events[SLOT_LANES] = Mux(valid & ~report.bf16 if self.shape.bf16 else valid, report.lanes, 0)
            if self.shape.bf16:
                events[SLOT_BF16 + 1] = Mux(valid & report.bf16, report.lanes << 1, 0)
            for number in range(len(self.shape.codec.spec.classes)):
                events[self.registers.class_slot(number)] = Mux(self.reports.valid, report.counts[number], 0)
        amounts = {}
        for number, event in events.items():
            amounts[number] = Signal(len(event), name=f"amount_{number}", reset_less=True)
            m.d.sync += amounts[number].eq(event)
        return amounts
