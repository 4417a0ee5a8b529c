# SPDX-License-Identifier: BSD-2-Clause
"""cocotb bench: ``inceptionn regs --uart`` talks to the simulated bring-up design over a pseudo-terminal."""

import json
import os
import select
import subprocess
import sys
import time
import tty

import cocotb
from cocotb.triggers import FallingEdge, Timer

from inceptionn.sim.runner import bench_parameters
from inceptionn.sim.testbench import TestBench

PERIOD_NS = 4
BIT_NS = PERIOD_NS * int(bench_parameters()["divisor"])
REPORT_NS = 300 * 10 * BIT_NS
"""Longer than the longest report."""
PATIENCE = 120
"""Seconds for one command; starting Python takes most of it."""


class TB(TestBench):
    """The serial line joined to the master side of a pseudo-terminal."""

    def __init__(self, dut):
        super().__init__(dut)
        self.master, self._slave = os.openpty()
        tty.setraw(self._slave)
        self.line = os.ttyname(self._slave)
        dut.rx.value = 1
        cocotb.start_soon(self._listen())

    async def _listen(self) -> None:
        while True:
            await FallingEdge(self.dut.tx)
            await Timer(BIT_NS // 2, "ns")
            byte = 0
            for bit in range(8):
                await Timer(BIT_NS, "ns")
                byte |= int(self.dut.tx.value) << bit
            await Timer(BIT_NS, "ns")
            os.write(self.master, bytes([byte]))

    async def regs(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the command; while it computes, little simulated time passes."""
        command = [sys.executable, "-m", "inceptionn.cli", "regs", *arguments, "--uart", self.line]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("COCOTB")}
        running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   env=environment)  # fmt: skip
        deadline = time.monotonic() + PATIENCE
        try:
            while running.poll() is None:
                assert time.monotonic() < deadline, f"{arguments} has not ended within {PATIENCE} s"
                if not select.select([self.master], [], [], 0.02)[0]:
                    await Timer(REPORT_NS // 8, "ns")
                    continue
                for byte in os.read(self.master, 256):
                    for bit in (0, *(byte >> i & 1 for i in range(8)), 1):
                        self.dut.rx.value = bit
                        await Timer(BIT_NS, "ns")
        finally:
            running.kill()
            out, errors = running.communicate()
        return subprocess.CompletedProcess(command, running.returncode, out, errors)


@cocotb.test()
async def registers_over_the_serial_line(dut) -> None:
    """Check settings, a refused one, and a fault with its verdict."""
    tb = TB(dut)
    await tb.reset(after=0)
    await Timer(2 * REPORT_NS, "ns")  # the greeting
    done = await tb.regs("bound", "8")
    assert done.returncode == 0, done.stderr
    done = await tb.regs("dump", "--json", "-")
    assert done.returncode == 0, done.stderr
    values = json.loads(done.stdout)
    assert (values["PATTERN"], values["BOUND"]) == (0, 8)
    assert values["PACKETS"] > 0
    assert values["VERDICT"] == 0b010
    assert values["MISMATCHED"] == 0
    done = await tb.regs("set", "PATTERN", "9")
    assert done.returncode == 1
    assert "no such number: help shows the choices" in done.stderr
    assert (await tb.regs("set", "INJECT.VALUE", "1")).returncode == 0
    done = await tb.regs("get", "MISMATCHED")
    assert done.stdout.strip() == "1", done.stderr
    assert (await tb.regs("get", "VERDICT.FAIL")).stdout.strip() == "0x1"
