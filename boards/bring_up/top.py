# SPDX-License-Identifier: BSD-2-Clause
"""The bring-up design with the VC709's pins and clock."""

from typing import Any

from amaranth.hdl import ClockDomain, Elaboratable, Module
from amaranth.lib import io

from .clock import EngineClock
from .core import LEDS, BringUpCore

DEFAULT_MHZ = 200
"""The board's own frequency: below the 250 MHz of the reference NIC, for the first light."""
BAUD = 115_200


class BringUp(Elaboratable):
    """For ``VC709Platform().build(BringUp())``: :class:`BringUpCore` on LEDs 0-7 and the USB serial line.

    ``mhz`` is the clock of everything. Raises ``ValueError`` where the clock manager cannot make it.
    """

    def __init__(self, mhz: float = DEFAULT_MHZ):
        self.mhz = mhz
        self.clock = EngineClock(mhz)

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.domains += ClockDomain("sync")
        m.submodules.clock = self.clock
        m.submodules.core = core = BringUpCore(round(self.mhz * 1e6), baud=BAUD)
        uart = platform.request("uart", 0, dir={"rx": "-", "tx": "-", "rts": "-", "cts": "-"})
        m.submodules.rx = rx = io.Buffer("i", uart.rx)
        m.submodules.tx = tx = io.Buffer("o", uart.tx)
        m.submodules.cts = cts = io.Buffer("o", uart.cts)
        m.d.comb += [core.rx.eq(rx.i), tx.o.eq(core.tx), cts.o.eq(0)]  # always clear to send
        for number in range(LEDS):
            led = m.submodules[f"led_{number}"] = io.Buffer("o", platform.request("led", number, dir="-"))
            m.d.comb += led.o.eq(core.leds[number])
        return m
