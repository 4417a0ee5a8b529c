# SPDX-License-Identifier: BSD-2-Clause
"""Receiver cards and modules of Colorlight that have an ECP5 and two gigabit PHYs: their pins.

The pins were read twice, from litex-boards (2023.12, and its snapshot of July 2026) and from who traced the
boards: chubby75 (5A-75B 7.0 and 8.0, 5A-75E 6.0 and 7.1), Colorlight-FPGA-Projects (i5 7.0, i9 7.2). For the
5A-75B 7.0 there is amaranth-boards, too. No pin differs. What does:

- PHYs of the 5A-75E: litex-boards names a B50612D on 6.0 and an RTL8211FD on 7.1 in older versions, chubby75
  and today's litex-boards the reverse. MDIO, pins and delays do not depend on it.
- i5 and i9: the two ports have each other's numbers in Colorlight-FPGA-Projects. Those here are
  litex-boards', which follow the PHYs' addresses.
- 25 MHz: on the 5A-75B 8.0 and the 5A-75E 6.0 a PHY makes them, so that they stop in its reset. On the others
  the crystal's clock goes to FPGA and PHYs alike. In litex-boards the reset of the 5A-75B is commented out.

In Project Trellis' tables of the parts, all are pins of the package, both received clocks are clock inputs
(PCLKT), and the 25 MHz are at an input of a PLL.
"""

from dataclasses import dataclass
from typing import Any

from amaranth.build import Attrs, Clock, Pins, PinsN, Resource, Subsignal

INPUT_HZ = 25_000_000


@dataclass(frozen=True)
class Colorlight:
    """Pins of a board: part, clock, the PHYs' management and ports, serial line; names divided by spaces.

    ``management``: MDC, MDIO and reset, which both PHYs share. A port: clock, control and data 0 to 3, as
    received, then as sent. ``serial``: sent, received.
    """

    device: str
    package: str
    clock: str
    management: str
    ports: tuple[str, str]
    serial: str

    def platform(self) -> Any:
        """Make Amaranth's description of the pins."""
        from amaranth.vendor import LatticePlatform

        pins = self
        mdc, mdio, reset = self.management.split()
        sent, received = self.serial.split()
        # Straps beside the PHYs' outputs tell their addresses and modes at the end of their reset. The FPGA's
        # pulls must not disturb them.
        floating = Attrs(PULLMODE="NONE")
        up = Attrs(PULLMODE="UP")

        def port(number: int, rxc: str, rx_ctl: str, *names: str) -> Resource:
            return Resource(
                "eth_rgmii", number,
                Subsignal("rx_clk", Pins(rxc, dir="i"), floating),
                Subsignal("rx_ctl", Pins(rx_ctl, dir="i"), floating),
                Subsignal("rx_data", Pins(" ".join(names[:4]), dir="i"), floating),
                Subsignal("tx_clk", Pins(names[4], dir="o")),
                Subsignal("tx_ctl", Pins(names[5], dir="o")),
                Subsignal("tx_data", Pins(" ".join(names[6:]), dir="o")),
                Attrs(IO_TYPE="LVCMOS33"),
            )  # fmt: skip

        class Platform(LatticePlatform):
            device, package, speed = pins.device, pins.package, "6"
            default_clk = "clk25"
            resources = [
                Resource("clk25", 0, Pins(pins.clock, dir="i"), Clock(INPUT_HZ), Attrs(IO_TYPE="LVCMOS33")),
                Resource(
                    "eth_management", 0,
                    Subsignal("mdc", Pins(mdc, dir="o")),
                    Subsignal("mdio", Pins(mdio, dir="io"), up),
                    Subsignal("rst", PinsN(reset, dir="o")),
                    Attrs(IO_TYPE="LVCMOS33"),
                ),
                *(port(number, *text.split()) for number, text in enumerate(pins.ports)),
                Resource(
                    "uart", 0,
                    Subsignal("tx", Pins(sent, dir="o")),
                    Subsignal("rx", Pins(received, dir="i"), up),
                    Attrs(IO_TYPE="LVCMOS33"),
                ),
            ]  # fmt: skip
            connectors = ()

        return Platform()


PINS_75B_7 = Colorlight(
    "LFE5U-25F", "BG256", "P6", "P3 T2 P5",
    ("M1 N6 N1 M5 N5 M6 M2 M3 L1 L3 P2 L4", "M16 L15 P13 N13 P14 M15 M12 R15 T14 R12 R13 R14"),
    "P11 M13",
)  # fmt: skip
"""5A-75B 7.0 and 5A-75E 7.1."""
PINS_75B_8 = Colorlight(
    "LFE5U-25F", "BG256", "P6", "R5 T4 R6",
    ("J1 J2 K2 J3 K1 K3 L1 L2 M2 M1 P1 R1", "M16 P16 M15 R16 L15 L16 J16 K14 K16 J15 J14 K15"),
    "T6 R7",
)  # fmt: skip
"""5A-75B 8.0 and 5A-75E 6.0."""
PINS_I5 = Colorlight(
    "LFE5U-25F", "BG381", "P3", "N5 P5 P4",
    ("H2 P2 K2 L1 N1 P1 G1 K1 G2 H1 J1 J3", "L19 M20 P20 N19 N20 M19 U19 P19 U20 T19 T20 R20"),
    "J17 H18",
)  # fmt: skip
"""i5 7.0; with another part i9 7.2."""
