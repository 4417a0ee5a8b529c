# SPDX-License-Identifier: BSD-2-Clause
"""An accumulator and its cocotb bench: the smallest check of the benches' runner."""

import random
from typing import Any

import cocotb
from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from cocotb.triggers import ClockCycles, RisingEdge

from inceptionn.sim.runner import bench_parameters
from inceptionn.sim.testbench import TestBench


class Accumulator(wiring.Component):
    """Sum of ``addend`` (and ``defect``) over the cycles with ``enable``, modulo 256, one cycle later."""

    def __init__(self, defect: int = 0):
        self.defect = defect
        super().__init__({"enable": In(1), "addend": In(8), "total": Out(8)})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        hidden = Signal(8)
        m.d.comb += [hidden.eq(self.addend + self.defect)]
        with m.If(self.enable):
            m.d.sync += self.total.eq(self.total + hidden)
        return m


component = Accumulator


async def start(dut: Any) -> None:
    """Clock and reset."""
    dut.enable.value = 0
    dut.addend.value = 0
    await TestBench(dut).reset(3, 2)


@cocotb.test()
async def adds(dut: Any) -> None:
    await start(dut)
    total = 0
    for _ in range(bench_parameters().get("cycles", 100)):
        enable, addend = random.randrange(2), random.randrange(256)
        dut.enable.value, dut.addend.value = enable, addend
        await RisingEdge(dut.aclk)
        total = (total + enable * addend) % 256
        dut.enable.value = 0
        await RisingEdge(dut.aclk)
        assert int(dut.total.value) == total, f"total is {int(dut.total.value)}, not {total}"


@cocotb.test()
async def holds(dut: Any) -> None:
    await start(dut)
    before = int(dut.total.value)
    dut.addend.value = 77
    await ClockCycles(dut.aclk, 10)
    assert int(dut.total.value) == before
