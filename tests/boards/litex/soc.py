# SPDX-License-Identifier: BSD-2-Clause
"""A SoC with two NICs, written and not built: `soc.py FOLDER OUT`. FOLDER holds module.py."""

import sys
from pathlib import Path


def main(folder: Path, out: Path) -> None:
    """Write ``csr.csv`` and the gateware to ``out``."""
    sys.path.insert(0, str(folder))
    from litex.gen import LiteXModule
    from litex.soc.integration.builder import Builder
    from litex.soc.integration.soc_core import SoCMini
    from litex_boards.platforms import colorlight_5a_75b
    from migen import ClockDomain
    from module import InceptionnNIC

    class Crg(LiteXModule):
        def __init__(self, clock):
            self.cd_sys = ClockDomain()
            self.comb += self.cd_sys.clk.eq(clock)

    platform = colorlight_5a_75b.Platform(revision="7.0")
    soc = SoCMini(platform, 25e6, uart_name="stub")
    soc.crg = Crg(platform.request("clk25"))
    soc.nic, soc.second = InceptionnNIC(platform), InceptionnNIC(platform)
    soc.nic.add_registers(soc)
    soc.second.add_registers(soc, "second", 0x40_0000)
    soc.comb += soc.nic.wire_source.connect(soc.second.host_sink)
    Builder(soc, output_dir=str(out), compile_software=False, csr_csv=str(out / "csr.csv")).build(run=False)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
