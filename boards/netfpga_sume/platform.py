# SPDX-License-Identifier: BSD-2-Clause
"""NetFPGA-SUME for Amaranth: the same die as the VC709's, one speed grade faster.

Pins are those of ``constraints/netfpga_sume_pins.csv``, all from one source: the constraints of Corundum's
port to the board (BSD-2-Clause). That file and this one lack UART, memories, FMC, SATA and configuration
flash. The buttons and the two resets are assumed to be active high. Not seen on hardware.
"""

from typing import Any

from amaranth.build import Attrs, Clock, DiffPairs, Pins, PinsN, Resource, Subsignal
from amaranth.vendor import XilinxPlatform
from amaranth_boards.resources import ButtonResources, I2CResource, LEDResources

from inceptionn.hdl.yosys import yosys_path

from ..xc7vx690t import pcie, sfp

__all__ = ["NetFPGASUMEPlatform"]

_INPUT = Attrs(IOSTANDARD="LVCMOS15", PULLUP="TRUE")
_OUTPUT = Attrs(IOSTANDARD="LVCMOS15", SLEW="SLOW", DRIVE="12")


def _sfp(number: int, mgt: str, **pins: str) -> Resource:
    return sfp(number, mgt, **pins, inputs=_INPUT, outputs=_OUTPUT)


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
        _sfp(
            0, "B4 B3 A6 A5",
            tx_disable="M18", tx_fault="M19", mod_detect="N18", los="L17", rate_select="N19 P18",
        ),
        _sfp(
            1, "C2 C1 B8 B7",
            tx_disable="B31", tx_fault="C26", mod_detect="L19", los="L20", rate_select="P20 N20",
        ),
        _sfp(
            2, "D4 D3 C6 C5",
            tx_disable="J38", tx_fault="E39", mod_detect="J37", los="G37", rate_select="F39 G36",
        ),
        _sfp(
            3, "E2 E1 D8 D7",
            tx_disable="L21", tx_fault="J26", mod_detect="H36", los="J36", rate_select="H38 G38",
        ),
        pcie("AY35"),
    ]  # fmt: skip
    connectors: list[Any] = []

    def toolchain_prepare(self, fragment: Any, name: str, **kwargs: Any) -> Any:
        """Find Yosys, which writes the Verilog."""
        yosys_path()
        return super().toolchain_prepare(fragment, name, **kwargs)
