# SPDX-License-Identifier: BSD-2-Clause
"""The README that accompanies a bitstream."""

from importlib.metadata import version

from inceptionn.hdl.inline.device import BAUD

from .flow import NAME, Routed
from .recipes import Recipe

_TEXT = """# Inline device for {title}

Written by inceptionn {version}, `inceptionn inline build`: {what}. **It was never loaded on a board.** The
design was simulated, and placed and routed by nextpnr. No tool checks the timing at the pads.

1. Load it: `openFPGALoader {loader} {name}.bit` (until power-off), or with `-f` into the flash.
2. Host: {host}. Network: {network}.
3. Serial line: {baud} baud, 8 data bits, no parity. `inceptionn regs dump --uart /dev/ttyUSB1`

| clock | target, MHz | reached, MHz |
|---|---|---|
{clocks}

Seed {seed}; {used}. `manifest.json` has the tools' versions, the router's constraints and the hashes of the
sources; `nextpnr.log` is the packed route's, without run times.
"""


def readme(recipe: Recipe, codec: str | None, routed: Routed, bf16: bool = False) -> str:
    """Describe the design, how to load and wire it, and its clocks; ``bf16``: it has bf16 lanes, too."""
    lanes = ", with bf16 lanes for ToS 0x2C" if bf16 else ""
    engines = f"engines of the codec {codec}{lanes}" if codec else "no engines, frames pass unchanged"
    return _TEXT.format(
        title=recipe.title, version=version("inceptionn"), what=engines, loader=recipe.loader, name=NAME,
        host=recipe.host.wiring, network=recipe.network.wiring, baud=BAUD, seed=routed.seed,
        clocks="\n".join(f"| {c.name} | {c.target:g} | {c.reached:.1f} |" for c in routed.clocks),
        used=", ".join(f"{count:,} of {of:,} {kind}" for kind, (count, of) in routed.used.items()),
    )  # fmt: skip
