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
    holds for a reset between two edges of its clock, too; what is accepted at the next three edges is lost.
    The other side hears of a reset up to three edges of that clock and three of its own later. Until then it
    may still take items from before, in order, and what it gives is lost. With both clocks in step it works
    again 19 cycles after a reset at the latest.

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
        self.probes: dict[str, Any] = {}
        write_hold, write_clear, read_hold, read_clear = self._holds(m)

        # A pointer is cleared only while the other side is held, so never by the reset itself.
        produced = Signal(bits + 1, reset_less=True)
        produced_gray = Signal(bits + 1, reset_less=True)
        produced_seen = Signal(bits + 1)
        following = Signal(bits + 1, init=1, reset_less=True)  # produced + 1
        consumed = Signal(bits + 1, reset_less=True)
        after = Signal(bits + 1, init=1, reset_less=True)  # consumed + 1
        consumed_next = Signal(bits + 1)
        consumed_gray = Signal(bits + 1, reset_less=True)
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
        with m.If(write_clear):
            d_write += [produced.eq(0), produced_gray.eq(0), following.eq(1)]
        with m.Elif(ram.write & ~write_hold):
            d_write += [
                produced.eq(following), produced_gray.eq(_gray(following)), following.eq(following + 1),
            ]  # fmt: skip

        self.probes |= {
            "ram": ram, "following": following, "after": after,
            "produced": produced, "produced_gray": produced_gray, "produced_seen": produced_seen,
            "consumed": consumed, "consumed_gray": consumed_gray, "consumed_seen": consumed_seen,
        }  # fmt: skip
        output = Signal(width, reset_less=True, attrs={CROSSING_ATTRIBUTE: "TRUE"})
        load = Signal()
        stored = Signal()
        m.d.comb += [
            stored.eq((produced_seen != consumed_gray) & ~read_hold),
            load.eq(stored & (~self.o.valid | self.o.ready)),
            ram.read_address.eq(consumed[:bits]),
            consumed_next.eq(Mux(read_clear, 0, Mux(load, after, consumed))),
            self.o.payload.eq(output),
        ]
        d_read += [consumed.eq(consumed_next), consumed_gray.eq(_gray(consumed_next))]
        with m.If(read_clear):
            d_read += after.eq(1)
        with m.Elif(load):
            d_read += after.eq(after + 1)
        with m.If(~self.o.valid | self.o.ready):
            d_read += output.eq(ram.read_data)
        with m.If(~self.o.valid | self.o.ready | read_hold):
            d_read += self.o.valid.eq(stored)
        return m

    def _holds(self, m: Module) -> tuple[Value, Value, Value, Value]:
        """Return what holds the writing side empty and what clears its pointer; then the same for reading.

        A reset is kept ``at_once``, for two edges of its own clock, and ``caught`` by its next edge, or two
        edges later if it falls between two edges. Then a handshake of four phases passes
        synchronisers: ``request`` holds the other side, ``asked``, for a cycle more than this side's pointer
        takes to get there. Its ``answer`` clears the pointer here and ends the request. The end of the
        answer releases this side, as the last. A reset that comes before that end is ``pending`` until then.
        So a pointer is cleared only while both sides are held, and only synchronisers sample what another
        clock changes.
        """
        sides = {"write": self.write_domain, "read": self.read_domain}
        holds: dict[str, Any] = {}
        asks: dict[str, Any] = {}
        for (name, domain), other in zip(sides.items(), reversed(sides.values()), strict=True):
            names = ("at_once", "caught", "asked", "answer")
            at_once, caught, asked, answer = (Signal(name=f"{name}_{part}") for part in names)
            request = Signal(name=f"{name}_request", reset_less=True)
            pending = Signal(name=f"{name}_pending", reset_less=True)
            asked_before = Signal(name=f"{name}_asked_before", reset_less=True)
            self.probes[name] = {
                "request": request, "pending": pending, "asked_before": asked_before,
                "at_once": at_once, "caught": caught, "asked": asked, "answer": answer,
            }  # fmt: skip
            reset = ResetSignal(domain, allow_reset_less=True)
            m.submodules[f"{name}_at_once"] = AsyncFFSynchronizer(reset, at_once, o_domain=domain)
            m.submodules[f"{name}_caught"] = FFSynchronizer(
                at_once, caught, o_domain=domain, init=1, reset_less=False
            )
            m.submodules[f"{name}_asked"] = FFSynchronizer(request, asked, o_domain=other)
            m.submodules[f"{name}_answer"] = FFSynchronizer(asked_before, answer, o_domain=domain)
            m.d[other] += asked_before.eq(asked)
            with m.If(request):
                m.d[domain] += request.eq(caught | ~answer)
            with m.Elif(answer):
                m.d[domain] += pending.eq(pending | caught)
            with m.Else():
                m.d[domain] += [request.eq(pending | caught), pending.eq(0)]
            holds[name] = caught | request | pending
            asks[name] = answer, asked | asked_before
        write_clear = asks["write"][0] | asks["read"][1]
        read_clear = asks["read"][0] | asks["write"][1]
        return holds["write"] | write_clear, write_clear, holds["read"] | read_clear, read_clear
