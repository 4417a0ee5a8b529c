# SPDX-License-Identifier: BSD-2-Clause
"""Queues between two clocks, and their constraints for the synthesis tool."""

from typing import Any

from amaranth.hdl import (
    ClockDomain,
    ClockSignal,
    DomainRenamer,
    Module,
    Mux,
    ResetSignal,
    Shape,
    Signal,
    Value,
)
from amaranth.lib import stream, wiring
from amaranth.lib.cdc import AsyncFFSynchronizer, FFSynchronizer
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from ..parts.memory import LutRam

CROSSING_ATTRIBUTE = "inceptionn.crossing"
"""On every register that samples another clock's data; the timing constraints find them by it."""


class CrossingPlatform:
    """Give it to the Verilog conversion: synchronisers then carry ``ASYNC_REG`` and the crossing's mark.

    Plain registers, as Amaranth makes them without a platform, so every simulator and family takes them;
    its Xilinx platform would instantiate ``FDPE``.
    """

    @staticmethod
    def get_ff_sync(sync: Any) -> Module:
        """Make the registers of an ``FFSynchronizer``."""
        m = Module()
        previous: Any = sync.i
        for number in range(sync._stages):
            attrs = {"ASYNC_REG": "TRUE", **({} if number else {CROSSING_ATTRIBUTE: "TRUE"})}
            stage = Signal(
                sync.i.shape(), name=f"stage{number}", init=sync._init, reset_less=sync._reset_less,
                attrs=attrs,
            )  # fmt: skip
            m.d[sync._o_domain] += stage.eq(previous)
            previous = stage
        m.d.comb += sync.o.eq(previous)
        return m

    @staticmethod
    def get_async_ff_sync(sync: Any) -> Module:
        """Make the registers of an ``AsyncFFSynchronizer``: set at once, released by the clock."""
        m = Module()
        m.domains += ClockDomain("asynchronous", async_reset=True, local=True)
        previous: Any = 0
        for number in range(sync._stages):
            attrs = {"ASYNC_REG": "TRUE", "inceptionn.reset_crossing": "TRUE"}
            stage = Signal(name=f"stage{number}", init=1, attrs=attrs)
            m.d.asynchronous += stage.eq(previous)
            previous = stage
        set_by = sync.i if sync._edge == "pos" else ~sync.i
        m.d.comb += [
            ClockSignal("asynchronous").eq(ClockSignal(sync._o_domain)),
            ResetSignal("asynchronous").eq(set_by),
            sync.o.eq(previous),
        ]
        return m


def _gray(value: Value) -> Value:
    return value ^ value[1:]


class AsyncQueue(wiring.Component):
    """First-in first-out queue with a clock on each side; both handshakes come from registers.

    Gray-coded pointers through two registers (Cummings, *Simulation and Synthesis Techniques for
    Asynchronous FIFO Design*, SNUG 2002, style 2). A reset of either domain, of any length, empties the
    queue on both sides: each side waits until the other is out of reset and has cleared its pointer. That
    holds for a reset between two edges of its clock, too; what is accepted at the next edge is lost.

    One item per cycle of the slower clock. Latency: 2 to 3 cycles of the reading clock.

    Parameters
    ----------
    shape : shape-like
        Of an item.
    depth : :class:`int`
        Places, a power of two of at least 8 (fewer could not cover the pointers' round trip).
    write_domain, read_domain : :class:`str`
    """

    def __init__(self, shape: Any, depth: int, *, write_domain: str, read_domain: str):
        if depth < 8 or depth & (depth - 1):
            raise ValueError(f"queue depth must be a power of two of at least 8, not {depth!r}")
        self.shape = shape
        self.depth = depth
        self.write_domain = write_domain
        self.read_domain = read_domain
        super().__init__(
            {
                "i": In(stream.Signature(shape)),  #: In the writing clock; ``i.ready`` is low in reset.
                "o": Out(stream.Signature(shape)),  #: In the reading clock.
            }
        )

    def elaborate(self, platform: Any) -> Module:
        # Pointers count places; their low bits address the RAM, which is written by one clock and read
        # into `output` by the other.
        m = Module()
        d_write, d_read = m.d[self.write_domain], m.d[self.read_domain]
        width, bits = Shape.cast(self.shape).width, exact_log2(self.depth)
        write_hold, read_hold = self._holds(m)

        produced = Signal(bits + 1)
        produced_gray = Signal(bits + 1)
        produced_seen = Signal(bits + 1)
        following = Signal(bits + 1, init=1)  # produced + 1
        consumed = Signal(bits + 1)
        consumed_next = Signal(bits + 1)
        consumed_gray = Signal(bits + 1)
        consumed_seen = Signal(bits + 1)
        m.submodules.produced = FFSynchronizer(produced_gray, produced_seen, o_domain=self.read_domain)
        m.submodules.consumed = FFSynchronizer(consumed_gray, consumed_seen, o_domain=self.write_domain)

        m.submodules.ram = ram = DomainRenamer(self.write_domain)(LutRam(width, self.depth))
        m.d.comb += [
            ram.write.eq(self.i.valid & self.i.ready),
            ram.write_address.eq(produced[:bits]),
            ram.write_data.eq(self.i.payload),
        ]
        # Full: the writer is one whole round ahead of the reader; in Gray code the top two bits differ.
        # Both outcomes come from registers: `valid` passes only a multiplexer on its way to `ready`.
        limit = consumed_seen ^ (0b11 << bits - 1)
        full = Mux(ram.write, _gray(following) == limit, produced_gray == limit)
        d_write += self.i.ready.eq(~write_hold & ~full)
        with m.If(write_hold):
            d_write += [produced.eq(0), produced_gray.eq(0), following.eq(1)]
        with m.Elif(ram.write):
            d_write += [
                produced.eq(following), produced_gray.eq(_gray(following)), following.eq(following + 1),
            ]  # fmt: skip

        output = Signal(width, reset_less=True, attrs={CROSSING_ATTRIBUTE: "TRUE"})
        load = Signal()
        stored = Signal()
        m.d.comb += [
            stored.eq((produced_seen != consumed_gray) & ~read_hold),
            load.eq(stored & (~self.o.valid | self.o.ready)),
            ram.read_address.eq(consumed[:bits]),
            consumed_next.eq(Mux(read_hold, 0, consumed + load)),
            self.o.payload.eq(output),
        ]
        d_read += [consumed.eq(consumed_next), consumed_gray.eq(_gray(consumed_next))]
        # A hold comes at any time in the cycle: it clears `valid`, and never changes what `valid` stands for.
        with m.If(~self.o.valid | self.o.ready):
            d_read += output.eq(ram.read_data)
        with m.If(~self.o.valid | self.o.ready | read_hold):
            d_read += self.o.valid.eq(stored)
        return m

    def _holds(self, m: Module) -> tuple[Signal, Signal]:
        """Hold each side, writing and reading, empty until a reset has reached both.

        A reset is ``caught`` in its own clock until that clock has cleared its pointer, then ``seen`` by the
        other side, then back as ``done``. Each is set at once and released by its own clock, after the
        previous one. So a side is held until the other has cleared its pointer; until then the pointer seen
        here may be an old one. The side of the reset is released last.
        """
        sides = {"write": self.write_domain, "read": self.read_domain}
        parts: dict[str, Signal] = {}
        for (name, own), other in zip(sides.items(), reversed(sides.values()), strict=True):
            source: Any = ResetSignal(own, allow_reset_less=True)
            for part, domain in (("caught", own), ("seen", other), ("done", own)):
                step = Signal(name=f"{name}_{part}")
                m.submodules[f"{name}_{part}"] = AsyncFFSynchronizer(source, step, o_domain=domain)
                source = parts[f"{name}_{part}"] = step
        write_hold = Signal()
        read_hold = Signal()
        m.d.comb += [
            write_hold.eq(parts["write_done"] | parts["read_seen"]),
            read_hold.eq(parts["read_done"] | parts["write_seen"]),
        ]
        return write_hold, read_hold
