# SPDX-License-Identifier: BSD-2-Clause
"""The engines' clock from the board's 200 MHz, by a mixed-mode clock manager (UG472)."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from amaranth.hdl import ClockSignal, Elaboratable, Instance, Module, Signal
from amaranth.lib import io
from amaranth.lib.cdc import ResetSynchronizer

INPUT_MHZ = 200
# Limits of a 7 series part, speed grade 2 (DS183, from memory: Vivado checks them again).
VCO_MHZ = (600, 1440)
OUTPUT_MHZ = (10, 400)
"""Clocks that :func:`settings` looks for; far beyond what the engines can run at."""


@dataclass(frozen=True)
class ClockSettings:
    """The oscillator runs at ``INPUT_MHZ / divide * multiply``, the clock at that over ``output_divide``."""

    divide: int
    multiply: Fraction
    output_divide: int


def settings(mhz: float) -> ClockSettings:
    """Return the settings that give exactly ``mhz``, with the fastest oscillator.

    It has the least jitter. The multiplier moves in eighths. Raises ``ValueError`` for a clock out of range
    or one that no setting gives.
    """
    low, high = OUTPUT_MHZ
    if not low <= mhz <= high:
        raise ValueError(f"clock must be {low} to {high} MHz, not {mhz!r}")
    wanted = Fraction(mhz).limit_denominator(10_000)
    found = []
    for divide in range(1, 9):
        for output_divide in range(1, 129):
            multiply = wanted * output_divide * divide / INPUT_MHZ
            vco = wanted * output_divide
            if (8 * multiply).denominator == 1 and 2 <= multiply <= 64 and VCO_MHZ[0] <= vco <= VCO_MHZ[1]:
                found.append((-divide, vco, ClockSettings(divide, multiply, output_divide)))
    if not found:
        raise ValueError(f"no setting of the clock manager gives exactly {mhz!r} MHz from {INPUT_MHZ} MHz")
    return max(found, key=lambda item: item[:2])[2]


class EngineClock(Elaboratable):
    """Drives domain ``sync``, at ``mhz`` from the platform's ``clk200``; in reset until the clock is stable.

    The CPU reset button resets the clock manager and so the whole design.
    """

    def __init__(self, mhz: float):
        self.mhz = mhz
        self.settings = settings(mhz)

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.clock_input = clock = io.Buffer("i", platform.request("clk200", 0, dir="-"))
        m.submodules.reset_input = reset = io.Buffer("i", platform.request("rst", 0, dir="-"))
        feedback = Signal()
        output = Signal()
        locked = Signal()
        m.submodules.mmcm = Instance(
            "MMCME2_BASE",
            p_BANDWIDTH="OPTIMIZED",
            p_CLKIN1_PERIOD=1000 / INPUT_MHZ,
            p_DIVCLK_DIVIDE=self.settings.divide,
            p_CLKFBOUT_MULT_F=float(self.settings.multiply),
            p_CLKOUT0_DIVIDE_F=float(self.settings.output_divide),
            i_CLKIN1=clock.i,
            i_RST=reset.i,
            i_PWRDWN=0,
            # No phase relation is needed, so the feedback stays inside.
            i_CLKFBIN=feedback,
            o_CLKFBOUT=feedback,
            o_CLKOUT0=output,
            o_LOCKED=locked,
        )
        m.submodules.clock_buffer = Instance("BUFG", i_I=output, o_O=ClockSignal("sync"))
        m.submodules.reset = ResetSynchronizer(~locked, domain="sync")
        return m
