# SPDX-License-Identifier: BSD-2-Clause
"""cocotb bench of RgmiiMedium's link, of which all clocks are one, and of a value that crosses."""

import itertools

from cocotb.triggers import ClockCycles, RisingEdge

from inceptionn.hdl.inline.port_page import Link
from inceptionn.sim.testbench import TestBench

STABLE = 80
"""Cycles after which the PHY's status is believed and has crossed."""


def status(up: int, speed: int, full: int) -> int:
    """Both edges' data of an idle cycle."""
    nibble = up | speed << 1 | full << 3
    return nibble | nibble << 5


class TB(TestBench):
    """The medium between a PHY's idle line and its registers."""

    def __init__(self, dut):
        super().__init__(dut)
        dut.host_rx.value = dut.managed.value = dut.value.value = 0

    async def link(self, told: int = 0, **managed: int) -> tuple[int, int, int]:
        """Up, speed, managed."""
        self.dut.host_rx.value = told
        self.dut.managed.value = Link.const(managed).as_bits()
        await ClockCycles(self.dut.aclk, STABLE)
        link = Link.from_bits(int(self.dut.link.value))
        return link.up, link.speed, link.managed


@TB.test()
async def what_the_phy_says(tb):
    """In-band status first, then the registers; half duplex is no link; the speed stays without one."""
    assert await tb.link() == (0, 2, 0)
    assert await tb.link(up=1, speed=1, managed=1) == (1, 1, 1)
    assert await tb.link(managed=1) == (0, 1, 1)
    assert await tb.link(status(1, 2, 1)) == (1, 2, 0)
    # A cable with two pairs: both ends can do 1000 Mbit/s, and the link has become 100.
    assert await tb.link(status(1, 1, 1), up=1, speed=2, managed=1) == (1, 1, 1)
    assert await tb.link(status(1, 1, 0), up=0, managed=1) == (0, 1, 1)
    assert await tb.link(status(0, 2, 0)) == (0, 1, 0)


@TB.test()
async def bits_that_arrive_apart(tb):
    """Check that a value of which the bits change up to three cycles apart is never seen mixed."""
    dut = tb.dut
    await ClockCycles(dut.aclk, 10)
    for old, new in itertools.permutations(range(4), 2):
        for first, apart in itertools.product((1, 2), range(4)):
            dut.value.value = old
            await ClockCycles(dut.aclk, 12)
            assert int(dut.stable.value) == old
            dut.value.value = (old & ~first) | (new & first)
            await ClockCycles(dut.aclk, apart) if apart else None
            dut.value.value = new
            for _ in range(12):
                await RisingEdge(dut.aclk)
                assert int(dut.stable.value) in (old, new), (old, new, first, apart)
            assert int(dut.stable.value) == new
    assert tb.dut is dut
