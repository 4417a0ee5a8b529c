# SPDX-License-Identifier: BSD-2-Clause
"""AMD VC709 (UG887) for Amaranth, in the style of amaranth-boards, which has no file for it.

Pins are those of ``constraints/vc709_pins.csv``; the memories' are read from ``vc709_ddr3_pins.csv``. The
first gives the sources of each: Xilinx's public board files, the connectivity reference design, constraints
of independent open projects (taxi, fpga-network-stack and others). Not seen on hardware. From memory alone
(*recall*): that the push buttons are active high, and the frequency of ``emcclk``. From one source only:
PMBus and fan. ``cpu_reset`` is active high by the board files; one third-party file says low. The FMC
connector is not here: no table of its pins was available.
"""

import os
import subprocess
from typing import Any

from amaranth.build import Attrs, Clock, DiffPairs, Pins, PinsN, Resource, Subsignal
from amaranth.vendor import XilinxPlatform
from amaranth_boards.resources import (
    ButtonResources,
    I2CResource,
    LEDResources,
    SwitchResources,
    UARTResource,
)

from inceptionn.constraints import read
from inceptionn.hdl.yosys import yosys_path

from ..pin_table import parse
from ..xc7vx690t import pcie, sfp

__all__ = ["VC709Platform"]

_LVCMOS18 = Attrs(IOSTANDARD="LVCMOS18")


def _sfp(number: int, mgt: str, **pins: str) -> Resource:
    return sfp(number, mgt, **pins, inputs=_LVCMOS18, outputs=_LVCMOS18)


_DDR3 = {pin.port: pin.pin for pin in parse(read("vc709_ddr3_pins.csv"), "vc709_ddr3_pins.csv")}
_DDR3_PARTS = {
    "clk_en": "cke", "cs": "cs_n", "we": "we_n", "ras": "ras_n", "cas": "cas_n", "odt": "odt", "a": "addr",
    "ba": "ba", "dm": "dm",
}  # fmt: skip
"""Outputs of a socket and their nets; those of "_n" are active low."""


def _ddr3(number: int) -> Resource:
    """Describe one SODIMM socket, 64 bits, from the table of pins.

    A memory controller that Vivado generates brings its own constraints.
    """

    def pins(net: str) -> str:
        """Return the pins of a net, or of a vector from bit 0."""
        port = f"c{number}_ddr3_{net}"
        return " ".join(pin for name, pin in _DDR3.items() if name.partition("[")[0] == port)

    def pair(net: str, dir: str, standard: str) -> tuple[DiffPairs, Attrs]:
        return DiffPairs(pins(f"{net}_p"), pins(f"{net}_n"), dir=dir), Attrs(IOSTANDARD=standard)

    return Resource(
        "ddr3",
        number,
        Subsignal("rst", PinsN(pins("reset_n"), dir="o"), Attrs(IOSTANDARD="LVCMOS15")),
        Subsignal("clk", *pair("ck", "o", "DIFF_SSTL15")),
        *(
            Subsignal(name, (PinsN if net.endswith("_n") else Pins)(pins(net), dir="o"))
            for name, net in _DDR3_PARTS.items()
        ),
        Subsignal("dqs", *pair("dqs", "io", "DIFF_SSTL15_T_DCI")),
        Subsignal("dq", Pins(pins("dq"), dir="io"), Attrs(IOSTANDARD="SSTL15_T_DCI")),
        Attrs(IOSTANDARD="SSTL15"),
    )


class VC709Platform(XilinxPlatform):
    """XC7VX690T-2 with four SFP+ cages, PCI Express x8 and two DDR3 SODIMM sockets.

    ``sync`` is 200 MHz from the system clock by default, reset by the CPU reset button. Pins of transceivers
    (``sfp_clk``, ``sma_clk``, ``sfp``, ``pcie``) must be requested with ``dir="-"``. The SFP+ reference clock
    ``sfp_clk`` runs only once the Si5324 was programmed over I2C (through the PCA9548 multiplexer).

    ``build(..., do_program=True)`` loads the bitstream over JTAG with openFPGALoader, or the program that
    ``OPENFPGALOADER`` names.
    """

    device = "xc7vx690t"
    package = "ffg1761"
    speed = "2"
    default_clk = "clk200"
    default_rst = "rst"

    resources = [
        Resource(
            "clk200", 0, DiffPairs("H19", "G18", dir="i"), Clock(200e6), Attrs(IOSTANDARD="DIFF_SSTL15")
        ),
        Resource(
            "clk233", 0, DiffPairs("AY18", "AY17", dir="i"), Clock(233.33e6), Attrs(IOSTANDARD="DIFF_SSTL15")
        ),
        # Si570: 156.25 MHz at power-up, programmable.
        Resource(
            "clk_user", 0, DiffPairs("AK34", "AL34", dir="i"), Clock(156.25e6), Attrs(IOSTANDARD="LVDS")
        ),
        Resource("clk_sma", 0, DiffPairs("AJ32", "AK32", dir="i"), Attrs(IOSTANDARD="LVDS")),
        Resource("emcclk", 0, Pins("AP37", dir="i"), Clock(80e6), _LVCMOS18),
        Resource("rst", 0, Pins("AV40", dir="i"), _LVCMOS18),
        *LEDResources(pins="AM39 AN39 AR37 AT37 AR35 AP41 AP42 AU39", attrs=_LVCMOS18),
        # Centre, west, south, east, north, as the board files number them.
        *ButtonResources(pins="AV39 AW40 AP40 AU38 AR40", attrs=_LVCMOS18),
        *SwitchResources(pins="AV30 AY33 BA31 BA32 AW30 AY30 BA30 BB31", attrs=_LVCMOS18),
        # CP2103; its RTS is an input here and its CTS an output.
        UARTResource(0, rx="AU33", tx="AU36", rts="AT32", cts="AR34", attrs=_LVCMOS18, role="dce"),
        I2CResource(
            0,
            scl="AT35",
            sda="AU32",
            attrs=Attrs(IOSTANDARD="LVCMOS18", SLEW="SLOW", DRIVE="16", PULLUP="TRUE"),
        ),
        Resource("i2c_mux_reset", 0, PinsN("AY42", dir="o"), _LVCMOS18),
        Resource(
            "si5324",
            0,
            Subsignal("rst", PinsN("AT36", dir="o"), _LVCMOS18),
            Subsignal("int_alarm", Pins("AU34", dir="i"), _LVCMOS18),
            Subsignal("rec_clock", DiffPairs("AW32", "AW33", dir="o"), Attrs(IOSTANDARD="LVDS")),
        ),
        Resource(
            "pmbus",
            0,
            Subsignal("clk", Pins("AW37", dir="io")),
            Subsignal("data", Pins("AY39", dir="io")),
            Subsignal("alert", Pins("AV38", dir="i")),
            _LVCMOS18,
        ),
        Resource(
            "fan",
            0,
            Subsignal("pwm", Pins("BA37", dir="o")),
            Subsignal("tach", Pins("BB37", dir="i")),
            _LVCMOS18,
        ),
        # MGTREFCLK0 of quad 113, from the Si5324: 156.25 MHz once that is programmed.
        Resource("sfp_clk", 0, DiffPairs("AH8", "AH7", dir="i"), Clock(156.25e6)),
        Resource("sma_clk", 0, DiffPairs("AK8", "AK7", dir="i")),
        # Cages P3, P2, P4, P5: GTHE2_CHANNEL_X1Y12 to X1Y15.
        _sfp(
            0, "AP4 AP3 AN6 AN5",
            tx_disable="AB41", tx_fault="Y38", mod_detect="AB42", los="Y39", rate_select="W40 Y40",
        ),
        _sfp(
            1, "AN2 AN1 AM8 AM7",
            tx_disable="Y42", tx_fault="AA39", mod_detect="AA42", los="AA40", rate_select="AB38 AB39",
        ),
        _sfp(
            2, "AM4 AM3 AL6 AL5",
            tx_disable="AC38", tx_fault="AA41", mod_detect="AC39", los="AD38", rate_select="AD42 AE42",
        ),
        _sfp(
            3, "AL2 AL1 AJ6 AJ5",
            tx_disable="AC40", tx_fault="AE38", mod_detect="AC41", los="AD40", rate_select="AE39 AE40",
        ),
        pcie("AV35"),
        # Micron PC28F00AG18FE, 16 bits; address bit 0 here is A1 of the chip.
        Resource(
            "bpi_flash",
            0,
            Subsignal(
                "a",
                Pins(
                    "AJ28 AH28 AG31 AF30 AK29 AK28 AG29 AK30 AJ30 AH30 AH29 AL30 "
                    "AL29 AN33 AM33 AM32 AV41 AU41 BA42 AU42 AT41 BA40 BA39 BB39 "
                    "AW42 AW41",
                    dir="o",
                ),
            ),
            Subsignal(
                "dq",
                Pins(
                    "AM36 AN36 AJ36 AJ37 AK37 AL37 AN35 AP35 AM37 AG33 AH33 AK35 AL35 AJ31 AH34 AJ35",
                    dir="io",
                ),
            ),
            Subsignal("adv", PinsN("AY37", dir="o")),
            Subsignal("ce", PinsN("AL36", dir="o")),
            Subsignal("oe", PinsN("BA41", dir="o")),
            Subsignal("we", PinsN("BB41", dir="o")),
            _LVCMOS18,
        ),
        _ddr3(0),
        _ddr3(1),
    ]  # fmt: skip
    connectors: list[Any] = []

    def toolchain_prepare(self, fragment: Any, name: str, **kwargs: Any) -> Any:
        """Find Yosys; add the configuration bank's voltage, which Vivado's design rules ask for."""
        yosys_path()
        voltage = "set_property CFGBVS GND [current_design]\nset_property CONFIG_VOLTAGE 1.8 [current_design]"
        given = kwargs.pop("add_constraints", None)
        kwargs["add_constraints"] = f"{voltage}\n{given}" if given else voltage
        return super().toolchain_prepare(fragment, name, **kwargs)

    def toolchain_program(self, products: Any, name: str) -> None:
        """Load the bitstream with openFPGALoader; not run on a board yet."""
        loader = os.environ.get("OPENFPGALOADER", "openFPGALoader")
        with products.extract(f"{name}.bit") as bitstream:
            subprocess.run([loader, "-b", "vc709", bitstream], check=True)
