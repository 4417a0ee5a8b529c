# SPDX-License-Identifier: BSD-2-Clause
"""Common parts of the cocotb benches: clocks, reset, and AXI sources and sinks without log output."""

from collections.abc import Awaitable, Callable
from functools import cache, wraps
from typing import Any, Self

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, RisingEdge
from cocotb.utils import get_sim_time
from cocotbext.axi import (
    AxiLiteBus,
    AxiLiteMaster,
    AxiStreamBus,
    AxiStreamFrame,
    AxiStreamSink,
    AxiStreamSource,
)


def silence(*parts: Any) -> None:
    """Let the loggers show only warnings."""
    for part in parts:
        part.log.setLevel("WARNING")


@cache
def _bits(value: int, count: int) -> tuple[int, ...]:
    return tuple(value >> bit & 1 for bit in range(count))


class StreamSink(AxiStreamSink):
    """The sink of cocotbext-axi, which walks through the bytes of each beat; here a beat is taken whole.

    Only for byte lanes of 8 bits, and a bus that has ``tvalid``, ``tready`` and ``tlast``.
    """

    async def _run(self) -> None:
        bus, lanes = self.bus, self.byte_lanes
        assert self.byte_size == 8, f"{self.byte_size} bits in a lane; StreamSink takes 8"
        beside = [name for name in ("tid", "tdest", "tuser") if hasattr(bus, name)]
        edge, woken = RisingEdge(self.clock), self.wake_event.wait()
        frame = None
        self.active = False
        while True:
            pause = bool(self.pause)
            await edge
            ready, valid = bool(bus.tready.value), bool(bus.tvalid.value)
            if ready and valid:
                if frame is None:
                    frame = AxiStreamFrame(bytearray(), [], [], [], [])
                    frame.sim_time_start = get_sim_time()
                    self.active = True
                frame.tdata += int(bus.tdata.value).to_bytes(lanes, "little")
                if hasattr(bus, "tkeep"):
                    frame.tkeep += _bits(int(bus.tkeep.value), lanes)
                for name in beside:
                    getattr(frame, name).extend([int(getattr(bus, name).value)] * lanes)
                if bus.tlast.value:
                    frame.sim_time_end = get_sim_time()
                    self.queue_occupancy_bytes += len(frame)
                    self.queue_occupancy_frames += 1
                    self.queue.put_nowait(frame)
                    self.active_event.set()
                    frame = None
            else:
                self.active = frame is not None
            stopped = self.full() or pause
            if ready == stopped:
                bus.tready.value = not stopped
            if (not valid or stopped) and pause == bool(self.pause):
                self.wake_event.clear()
                await woken


class TestBench:
    """Base of a bench's ``TB``: the clocks of the device run from the beginning.

    Parameters
    ----------
    clocks : periods in ps of the device's clocks, by name; ``aclk`` of 4 ns if none is named.
    """

    def __init__(self, dut: Any, **clocks: int):
        self.dut = dut
        self.log = dut._log
        self._ends: list[Any] = []
        for name, period in (clocks or {"aclk": 4000}).items():
            Clock(getattr(dut, name), period, unit="ps").start()

    async def reset(self, low: int = 4, after: int = 4) -> None:
        """Hold ``aresetn`` low for ``low`` cycles of ``aclk``, and return ``after`` cycles later.

        The sources and sinks forget what they hold.
        """
        self.dut.aresetn.value = 0
        await ClockCycles(self.dut.aclk, low)
        for end in self._ends:
            end.clear()
        self.dut.aresetn.value = 1
        if after:
            await ClockCycles(self.dut.aclk, after)

    async def start(self) -> None:
        """Bring the bench from power-on to the state in which a test begins."""
        await self.reset()

    @classmethod
    async def started(cls, dut: Any) -> Self:
        """Make a bench of ``dut`` and :meth:`start` it."""
        tb = cls(dut)
        await tb.start()
        return tb

    @classmethod
    def test(cls, **options: Any) -> Callable[[Any], Any]:
        """Register a cocotb test that is handed a :meth:`started` bench in place of the device.

        ``options`` as of ``cocotb.test``.
        """

        def register(function: Any) -> Any:
            test = cocotb.test(**options)(function)
            body: Callable[..., Awaitable[None]] = test.func

            @wraps(body)
            async def on_started(dut: Any, **parameters: Any) -> None:
                await body(await cls.started(dut), **parameters)

            test.func = on_started
            return test

        return register

    def stream_source(self, prefix: str = "s_axis", reset: Any = None) -> AxiStreamSource:
        """Drive an AXI4-Stream input. ``reset``, active high, replaces ``aresetn``."""
        return self._end(AxiStreamSource, prefix, reset)

    def stream_sink(self, prefix: str = "m_axis", reset: Any = None) -> StreamSink:
        """Accept what an AXI4-Stream output offers. ``reset`` as for a source."""
        return self._end(StreamSink, prefix, reset)

    def axi_lite(self, prefix: str = "s_axil") -> AxiLiteMaster:
        """Read and write registers; ``aresetn`` resets the master."""
        bus = AxiLiteBus.from_prefix(self.dut, prefix)
        master = AxiLiteMaster(bus, self.dut.aclk, self.dut.aresetn, reset_active_level=False)
        silence(master.write_if, master.read_if)
        return master

    def _end(self, kind: Any, prefix: str, reset: Any) -> Any:
        bus = AxiStreamBus.from_prefix(self.dut, prefix)
        active_low = reset is None
        end = kind(
            bus, self.dut.aclk, self.dut.aresetn if active_low else reset, reset_active_level=not active_low
        )
        silence(end)
        self._ends.append(end)
        return end
