# SPDX-License-Identifier: BSD-2-Clause
"""Common parts of the cocotb benches: clocks, reset, and AXI sources and sinks without log output."""

from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any, Self

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles
from cocotb.utils import get_sim_time
from cocotbext.axi import AxiLiteBus, AxiLiteMaster, AxiStreamBus, AxiStreamSink, AxiStreamSource


def silence(*parts: Any) -> None:
    """Let the loggers show only warnings."""
    for part in parts:
        part.log.setLevel("WARNING")


class _Payload:
    """A signal, read from the simulator once in each time step."""

    def __init__(self, signal: Any):
        self._signal = signal
        self._time, self._value = -1, 0

    @property
    def value(self) -> int:
        """The value at the first request of this time step."""
        now = get_sim_time()
        if now != self._time:
            self._time, self._value = now, int(self._signal.value)
        return self._value


class StreamSink(AxiStreamSink):
    """The sink of cocotbext-axi, which asks for every signal for each byte of a beat; here once per beat.

    Of its bus, the payload's signals have only ``value``.
    """

    def __init__(self, bus: AxiStreamBus, *arguments: Any, **options: Any):
        super().__init__(bus, *arguments, **options)
        for name in ("tdata", "tkeep", "tid", "tdest", "tuser"):
            if hasattr(bus, name):
                setattr(bus, name, _Payload(getattr(bus, name)))


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
