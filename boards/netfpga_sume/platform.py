# SPDX-License-Identifier: BSD-2-Clause
"""NetFPGA-SUME for Amaranth: the same die as the VC709's, one speed grade faster.

Pins are those of ``constraints/netfpga_sume_pins.csv``, all from one source: the constraints of Corundum's
port to the board (BSD-2-Clause). That file and this one lack UART, memories, FMC, SATA and configuration
flash. The buttons and the two resets are assumed to be active high. Not seen on hardware.
"""

from __future__ import annotations

from typing import Any

from amaranth.build import Attrs, Clock, DiffPairs, Pins, PinsN, Resource, Subsignal
from amaranth.vendor import XilinxPlatform
from amaranth_boards.resources import ButtonResources, I2CResource, LEDResources

from inceptionn.hdl.yosys import yosys_path

__all__ = ["NetFPGASUMEPlatform"]

_INPUT = Attrs(IOSTANDARD="LVCMOS15", PULLUP="TRUE")
_OUTPUT = Attrs(IOSTANDARD="LVCMOS15", SLEW="SLOW", DRIVE="12")


def _sfp(
    number: int, mgt: str, mod_detect: str, rate_select: str, los: str, disable: str, fault: str
) -> Resource:
    """One cage; ``mgt`` is TX P, TX N, RX P, RX N. Request ``tx`` and ``rx`` with ``dir="-"``."""
    tx_p, tx_n, rx_p, rx_n = mgt.split()
    return Resource(
        "sfp",
        number,
        Subsignal("tx", DiffPairs(tx_p, tx_n, dir="o")),
        Subsignal("rx", DiffPairs(rx_p, rx_n, dir="i")),
        Subsignal("tx_disable", Pins(disable, dir="o"), _OUTPUT),
        Subsignal("tx_fault", Pins(fault, dir="i"), _INPUT),
        Subsignal("mod_detect", Pins(mod_detect, dir="i"), _INPUT),
        Subsignal("los", Pins(los, dir="i"), _INPUT),
        Subsignal("rate_select", Pins(rate_select, dir="o"), _OUTPUT),
    )


class NetFPGASUMEPlatform(XilinxPlatform):
    """XC7VX690T-3 with four SFP+ cages and PCI Express x8.

    ``sync`` is 200 MHz from the system clock by default; no reset button is known. LEDs 0 and 1 are the user
    LEDs, then two for each cage. Transceiver pins must be requested with ``dir="-"``.
    """

    device = "xc7vx690t"
    package = "ffg1761"
    speed = "3"
    default_clk = "clk200"

    resources = [
        Resource("clk200", 0, DiffPairs("H19", "G18", dir="i"), Clock(200e6), Attrs(IOSTANDARD="LVDS")),
        Resource("clk_qdrii", 0, DiffPairs("AD32", "AD33", dir="i"), Clock(200e6), Attrs(IOSTANDARD="LVDS")),
        Resource("clk_qdrii", 1, DiffPairs("AU14", "AU13", dir="i"), Clock(200e6), Attrs(IOSTANDARD="LVDS")),
        Resource("clk_ddr3", 0, DiffPairs("E34", "E35", dir="i"), Clock(233.33e6), Attrs(IOSTANDARD="LVDS")),
        *LEDResources(pins="AR22 AR23 G13 L15 AL22 BA20 AY18 AY17 P31 K32", attrs=_OUTPUT),
        *ButtonResources(pins="AR13 BB12", attrs=Attrs(IOSTANDARD="LVCMOS15")),
        I2CResource(
            0, scl="AK24", sda="AK25",
            attrs=Attrs(IOSTANDARD="LVCMOS18", SLEW="SLOW", DRIVE="12", PULLUP="TRUE"),
        ),
        Resource("i2c_mux_reset", 0, Pins("AM39", dir="o"), _OUTPUT),
        # MGTREFCLK0 of quad 118: 156.25 MHz once the clock chip is programmed over I2C.
        Resource("sfp_clk", 0, DiffPairs("E10", "E9", dir="i"), Clock(156.25e6)),
        Resource(
            "sfp_clk_chip", 0,
            Subsignal("rst", Pins("BA29", dir="o"), Attrs(IOSTANDARD="LVCMOS18")),
            Subsignal("alarm", PinsN("AM29", dir="i"), Attrs(IOSTANDARD="LVCMOS18", PULLUP="TRUE")),
            Subsignal("rec_clock", DiffPairs("AW32", "AW33", dir="o"), Attrs(IOSTANDARD="LVDS")),
        ),
        # GTHE2_CHANNEL_X1Y39 down to X1Y36, quad 119.
        _sfp(0, "B4 B3 A6 A5", "N18", "N19 P18", "L17", "M18", "M19"),
        _sfp(1, "C2 C1 B8 B7", "L19", "P20 N20", "L20", "B31", "C26"),
        _sfp(2, "D4 D3 C6 C5", "J37", "F39 G36", "G37", "J38", "E39"),
        _sfp(3, "E2 E1 D8 D7", "H36", "H38 G38", "J36", "L21", "J26"),
        Resource(
            "pcie", 0,
            Subsignal("clk", DiffPairs("AB8", "AB7", dir="i"), Clock(100e6)),
            Subsignal("perst", PinsN("AY35", dir="i"), Attrs(IOSTANDARD="LVCMOS18", PULLUP="TRUE")),
            Subsignal("tx", DiffPairs("W2 AA2 AC2 AE2 AG2 AH4 AJ2 AK4",
                                      "W1 AA1 AC1 AE1 AG1 AH3 AJ1 AK3", dir="o")),
            Subsignal("rx", DiffPairs("Y4 AA6 AB4 AC6 AD4 AE6 AF4 AG6",
                                      "Y3 AA5 AB3 AC5 AD3 AE5 AF3 AG5", dir="i")),
        ),
    ]  # fmt: skip
    connectors: list[Any] = []

    def toolchain_prepare(self, fragment: Any, name: str, **kwargs: Any) -> Any:
        """Find Yosys, which writes the Verilog."""
        yosys_path()
        return super().toolchain_prepare(fragment, name, **kwargs)
