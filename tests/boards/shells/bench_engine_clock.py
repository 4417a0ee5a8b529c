# SPDX-License-Identifier: BSD-2-Clause
"""cocotb bench of the engines' clock: it comes back whatever user_clk does; the MMCM is a model."""

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, FallingEdge, RisingEdge, Timer, with_timeout
from cocotb.utils import get_sim_time

from inceptionn.sim.runner import bench_parameters

RATIO = bench_parameters()["ratio"]
PERIOD_PS = 4000
LOCK_US = 2
"""The model locks in 1.6."""
RETRY_US = 270
"""From a reset that did not help to the next one."""


class TB:
    """user_clk, which can stop and change."""

    def __init__(self, dut):
        self.dut = dut
        self.resets = 0
        self.clock = Clock(dut.user_clk, PERIOD_PS, unit="ps")
        self.clock.start()
        cocotb.start_soon(self._count())

    async def _count(self) -> None:
        while True:
            await RisingEdge(self.dut.restart)
            begun = get_sim_time("ns")
            await FallingEdge(self.dut.restart)
            assert get_sim_time("ns") - begun >= 5, "RST is shorter than an MMCM takes"
            self.resets += 1

    async def locks(self, within_us: int) -> None:
        await RisingEdge(self.dut.user_clk)
        if not int(self.dut.engine_aresetn.value):
            await with_timeout(RisingEdge(self.dut.engine_aresetn), within_us, "us")
        await ClockCycles(self.dut.engine_clk, 3)
        begun = get_sim_time("ps")
        await ClockCycles(self.dut.engine_clk, 50)
        period = (get_sim_time("ps") - begun) / 50
        assert abs(period / (RATIO * PERIOD_PS) - 1) < 0.01, f"engine_clk has a period of {period} ps"

    async def stops(self, ns: int, period_ps: int = PERIOD_PS) -> None:
        """No user_clk for so long, then one of this period."""
        self.clock.stop()
        self.dut.user_clk.value = 0
        fell = cocotb.start_soon(with_timeout(FallingEdge(self.dut.engine_aresetn), 1, "us"))
        await Timer(ns, "ns")
        await fell
        self.clock = Clock(self.dut.user_clk, period_ps, unit="ps")
        self.clock.start()


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def locks_by_itself(dut):
    """After configuration an MMCM needs no reset and gets none."""
    tb = TB(dut)
    await tb.locks(LOCK_US)
    await Timer(RETRY_US, "us")
    assert int(dut.engine_aresetn.value)
    assert tb.resets == 0


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def comes_back_when_user_clk_does(dut):
    """Check that each loss of user_clk brings one reset of the MMCM, at once."""
    tb = TB(dut)
    await tb.locks(LOCK_US)
    before = tb.resets
    for number, gap in enumerate((40, 1000, 20000), start=1):
        await tb.stops(gap)
        await tb.locks(LOCK_US)
        assert tb.resets == before + number


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def tries_again(dut):
    """Check that a clock that first comes back wrong defeats the first reset, but not the next one."""
    tb = TB(dut)
    await tb.locks(LOCK_US)
    await tb.stops(100, 2 * PERIOD_PS)
    await Timer(20, "us")
    assert not int(dut.engine_aresetn.value)
    tb.clock.stop()
    tb.clock = Clock(dut.user_clk, PERIOD_PS, unit="ps")
    tb.clock.start()
    await Timer(20, "us")
    assert not int(dut.engine_aresetn.value)
    await tb.locks(RETRY_US)
