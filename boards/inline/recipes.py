# SPDX-License-Identifier: BSD-2-Clause
"""The boards that an inline device can be built for, as one table."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

from amaranth.build import Attrs, Pins, PinsN, Resource, Subsignal

from inceptionn.wire import GROUP_LANES

from .colorlight import INPUT_HZ, PINS_75B_7, PINS_75B_8, PINS_I5, Colorlight


@dataclass(frozen=True)
class PortRecipe:
    """A port on a board: its interface, pins, PHY and delays.

    ``phy`` is the MDIO address that is tried first. ``transmit_ps`` and ``receive_ps`` are the delays of
    RGMII's pads, in picoseconds (:class:`~inceptionn.boards.inline.pads.RgmiiPads`).
    """

    interface: str
    resource: str
    number: int = 0
    phy: int = 0
    transmit_ps: int = 0
    receive_ps: int = 0
    wiring: str = ""
    """The connector of the cable, as text for the README."""


@dataclass(frozen=True)
class Recipe:
    """A board.

    ``platform`` makes Amaranth's description of its pins. ``loader`` holds options for openFPGALoader.
    ``lanes`` are the widths of engines that the part holds, the usual one first; ``clock_hz`` is its clock.
    With ``shared_management`` both PHYs have one reset and one pair of MDIO wires, the resource
    ``eth_management``, and the FPGA's oscillator resets them.
    """

    name: str
    title: str
    platform: Callable[[], Any]
    host: PortRecipe
    network: PortRecipe
    loader: str
    lanes: tuple[int, ...] = (1,)
    clock_hz: int = 100_000_000
    shared_management: bool = False
    apart: bool = False
    """Both ports send in the MAC's clock, so far from each other that each needs registers of its reset."""
    jtag: str = "the board's USB socket"
    """Where a JTAG adapter is connected, as text for the README."""
    serial: str = "the board's USB socket"
    """Likewise the serial line."""
    flash: int = 0
    """MiB of the flash with the factory's bitstream, which the README tells to save; 0: it says nothing."""
    unlock: str = ""
    """Options of openFPGALoader for a flash that comes write-protected."""

    def check(self, lanes: int) -> None:
        """Raise ``ValueError`` unless the part holds engines of so many lanes; the text names a board."""
        if lanes not in self.lanes:
            has = " or ".join(map(str, self.lanes)) + (" lane" if self.lanes == (1,) else " lanes")
            larger = next((name for name, recipe in RECIPES.items() if lanes in recipe.lanes), None)
            hint = f"; {larger} holds {lanes}" if larger else ""
            raise ValueError(f"{self.name} holds engines of {has}, not {lanes}{hint}")


_RMII_MODULE = Resource(
    "eth_rmii", 0,
    Subsignal("txd", Pins("1 2", dir="o", conn=("pmod", 0))),
    Subsignal("tx_en", Pins("3", dir="o", conn=("pmod", 0))),
    Subsignal("mdc", Pins("4", dir="o", conn=("pmod", 0))),
    Subsignal("rxd", Pins("7 8", dir="i", conn=("pmod", 0)), Attrs(PULLMODE="UP")),
    Subsignal("crs_dv", Pins("9", dir="i", conn=("pmod", 0)), Attrs(PULLMODE="UP")),
    Subsignal("mdio", Pins("10", dir="io", conn=("pmod", 0)), Attrs(PULLMODE="UP")),
    Subsignal("ref_clk", Pins("1", dir="i", conn=("pmod", 1))),
    Subsignal("rst", PinsN("2", dir="o", conn=("pmod", 1))),
    Attrs(IO_TYPE="LVCMOS33"),
)  # fmt: skip
"""A module with a LAN8720 or similar on two PMOD connectors. Either supplies 3.3 V and ground.

The PHY reads its mode from the pins with pull-ups at the end of its reset. All ones selects negotiation of
all speeds.
"""


def _ecpix5() -> Any:
    from amaranth_boards.ecpix5 import ECPIX585Platform

    class Platform(ECPIX585Platform):
        resources = [*deepcopy(ECPIX585Platform.resources), _RMII_MODULE]

    for resource in Platform.resources:
        if resource.name == "rst":
            resource.attrs["PULLMODE"] = "UP"  # the button's pin must not float
        if resource.name == "eth_rgmii":
            for part in resource.ios:
                if part.name in ("rx_data", "rx_ctrl"):
                    part.attrs["PULLMODE"] = "UP"  # the KSZ9031's mode, read at the end of its reset
    return Platform()


def _versa() -> Any:
    from amaranth_boards.versa_ecp5_5g import VersaECP55GPlatform

    return VersaECP55GPlatform()


def _card(name: str, title: str, pins: Colorlight, connector: str, serial: str, **more: Any) -> Recipe:
    # Both PHYs delay the sent clock themselves, and leave the received data to the pads.
    port = PortRecipe("rgmii", "eth_rgmii", receive_ps=2000, wiring=connector)
    facts: dict[str, Any] = {"loader": "-c ft232", "flash": 4, "apart": True, **more}
    return Recipe(
        f"colorlight-{name}", f"Colorlight {title}", pins.platform, port,
        replace(port, number=1, phy=1, wiring="the other RJ45"), clock_hz=INPUT_HZ, shared_management=True,
        serial=serial, **facts,
    )  # fmt: skip


_PADS = "an adapter (FT232H) at the pads J27 (TCK), J31 (TMS), J32 (TDI), J30 (TDO) and J34 (ground)"
_J19 = "an adapter of 3.3 V at J19: it receives at DATA_LED- and sends at KEY+, whose pins LED and key share"
_BOARD = "the USB socket of the extension board (DAPLink)"
_POWER = "the RJ45 beside the power connector"
_EITHER = "one RJ45 (`LINKS` shows which)"
_MODULE = {"jtag": _BOARD, "unlock": " --unprotect-flash"}
_COLORLIGHT = (
    _card("5a-75b-7.0", "5A-75B, version 7.0", PINS_75B_7, _POWER, _J19, jtag=_PADS),
    _card("5a-75b-8.0", "5A-75B, version 8.0", PINS_75B_8, _EITHER, _J19, jtag=_PADS),
    _card("5a-75e-6.0", "5A-75E, version 6.0", PINS_75B_8, _EITHER, _J19, jtag=_PADS),
    _card("5a-75e-7.1", "5A-75E, version 7.1", PINS_75B_7, _EITHER, _J19, jtag=_PADS),
    _card("i5", "i5, version 7.0", PINS_I5, _EITHER, _BOARD, loader="-b colorlight-i5", flash=2, **_MODULE),
    _card(
        "i9", "i9, version 7.2", replace(PINS_I5, device="LFE5U-45F"), _EITHER, _BOARD,
        loader="-b colorlight-i9", flash=8, **_MODULE,
    ),
)  # fmt: skip
RECIPES = {
    recipe.name: recipe
    for recipe in (
        Recipe(
            "ecpix5-85f", "LambdaConcept ECPIX-5, 85F", _ecpix5,
            # KSZ9031RNX: its address is strapped to 0..7, and it delays its receive clock itself.
            PortRecipe("rgmii", "eth_rgmii", phy=0, transmit_ps=2000, wiring="the board's RJ45"),
            PortRecipe("rmii", "eth_rmii", phy=1, wiring="the RMII module on PMOD 0 and 1"),
            "-b ecpix5",
            lanes=(GROUP_LANES, 1),
        ),
        Recipe(
            "versa-ecp5-5g", "Lattice Versa ECP5-5G", _versa,
            # 88E1512: it makes both delays itself.
            PortRecipe("rgmii", "eth_rgmii", 0, wiring="RJ45 of PHY 1"),
            PortRecipe("rgmii", "eth_rgmii", 1, wiring="RJ45 of PHY 2"),
            "-c ft2232",
        ),
        *_COLORLIGHT,
    )
}  # fmt: skip
"""Recipes by the value of ``--board``."""
