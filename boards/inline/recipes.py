# SPDX-License-Identifier: BSD-2-Clause
"""The boards that an inline device can be built for, as one table."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from amaranth.build import Attrs, Pins, PinsN, Resource, Subsignal


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
    """

    name: str
    title: str
    platform: Callable[[], Any]
    host: PortRecipe
    network: PortRecipe
    loader: str


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


RECIPES = {
    recipe.name: recipe
    for recipe in (
        Recipe(
            "ecpix5-85f", "LambdaConcept ECPIX-5, 85F", _ecpix5,
            # KSZ9031RNX: its address is strapped to 0..7, and it delays its receive clock itself.
            PortRecipe("rgmii", "eth_rgmii", phy=0, transmit_ps=2000, wiring="the board's RJ45"),
            PortRecipe("rmii", "eth_rmii", phy=1, wiring="the RMII module on PMOD 0 and 1"),
            "-b ecpix5",
        ),
        Recipe(
            "versa-ecp5-5g", "Lattice Versa ECP5-5G", _versa,
            # 88E1512: it makes both delays itself.
            PortRecipe("rgmii", "eth_rgmii", 0, wiring="RJ45 of PHY 1"),
            PortRecipe("rgmii", "eth_rgmii", 1, wiring="RJ45 of PHY 2"),
            "-c ft2232",
        ),
    )
}  # fmt: skip
"""Recipes by the value of ``--board``."""
