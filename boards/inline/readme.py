# SPDX-License-Identifier: BSD-2-Clause
"""The README that accompanies a bitstream."""

from dataclasses import asdict
from importlib.metadata import version

from inceptionn.hdl.inline.device import BAUD
from inceptionn.wire import GROUP_LANES

from ..templates import render
from .flow import NAME, Routed
from .recipes import Recipe


def readme(
    recipe: Recipe, codec: str | None, routed: Routed, bf16: bool = False, lanes: int = GROUP_LANES
) -> str:
    """Describe the design, its clocks, and how to load, wire, try and remove it.

    ``bf16``: it has bf16 lanes, too; ``lanes``: of its engines.
    """
    types = ", with bf16 lanes for ToS 0x2C" if bf16 else ""
    engines = f"engines of {lanes} lane{'s' * (lanes > 1)} with the codec {codec}{types}"
    context = {
        **{name: getattr(recipe, name) for name in ("title", "loader", "jtag", "serial", "flash", "unlock")},
        "version": version("inceptionn"),
        "what": engines if codec else "no engines, frames pass unchanged",
        "codec": codec,
        "name": NAME,
        "host": recipe.host.wiring,
        "network": recipe.network.wiring,
        "rate": 940 if recipe.network.interface == "rgmii" else 94,
        "baud": BAUD,
        "seed": routed.seed,
        "clocks": [asdict(clock) for clock in routed.clocks],
        "used": ", ".join(f"{count:,} of {of:,} {kind}" for kind, (count, of) in routed.used.items()),
    }
    return render("inline/readme.md.j2", context)
