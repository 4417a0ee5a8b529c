# SPDX-License-Identifier: BSD-2-Clause
"""The NIC between two LiteEth MACs as Verilog: `mac_loop.py FOLDER OUT.v DATAPATH`. FOLDER holds module.py.

A port's octets come as from GMII, 8 bits with the port's clock. DATAPATH is `with_sys_datapath` of the MACs.
"""

import sys
from pathlib import Path
from types import SimpleNamespace


def main(folder: str, out: str, datapath: str) -> None:
    """Write the module ``mac_loop``."""
    sys.path.insert(0, folder)
    from liteeth.common import eth_phy_description, stream
    from liteeth.mac.core import LiteEthMACCore
    from litex.build.sim import SimPlatform
    from litex.gen import ClockDomainsRenamer, LiteXModule
    from litex.gen.fhdl.verilog import convert
    from migen import ClockDomain, Signal
    from module import InceptionnNIC

    ios = []

    def pad(name: str, width: int = 1):
        ios.append(Signal(width, name=name))
        return ios[-1]

    class Phy(LiteXModule):
        """Octets with preamble and FCS, in and out."""

        dw = 8

        def __init__(self, name: str):
            self.sink = stream.Endpoint(eth_phy_description(8))
            self.source = stream.Endpoint(eth_phy_description(8))
            self.cd_eth_tx = ClockDomain()
            self.cd_eth_rx = ClockDomain()
            clock, reset = pad(f"{name}_clk"), pad(f"{name}_rst")
            for domain in (self.cd_eth_tx, self.cd_eth_rx):
                self.comb += [domain.clk.eq(clock), domain.rst.eq(reset)]
            valid, octet = pad(f"{name}_rx_dv"), pad(f"{name}_rxd", 8)
            self.sync.eth_rx += [self.source.valid.eq(valid), self.source.data.eq(octet)]
            self.comb += [
                self.source.last.eq(self.source.valid & ~valid),
                self.source.last_be.eq(self.source.last),
                pad(f"{name}_tx_en").eq(self.sink.valid),
                pad(f"{name}_txd", 8).eq(self.sink.data),
                self.sink.ready.eq(1),
            ]

    class Loop(LiteXModule):
        def __init__(self):
            self.cd_sys = ClockDomain()
            self.comb += [self.cd_sys.clk.eq(pad("sys_clk")), self.cd_sys.rst.eq(pad("sys_rst"))]
            self.nic = nic = InceptionnNIC(SimPlatform("SIM", []))
            macs = SimpleNamespace()
            for name in ("host", "network"):
                clocks = {f"eth_{way}": f"{name}_{way}" for way in ("tx", "rx")}
                phy = ClockDomainsRenamer(clocks)(Phy(name))
                mac = LiteEthMACCore(
                    phy, dw=nic.dw, with_sys_datapath=datapath == "sys",
                    tx_cdc_buffered=True, rx_cdc_buffered=True,
                )  # fmt: skip
                mac = ClockDomainsRenamer(clocks)(mac)
                self.add_module(f"{name}_phy", phy)
                self.add_module(f"{name}_mac", mac)
                setattr(macs, name, mac)
            self.comb += [
                macs.host.source.connect(nic.host_sink),
                nic.wire_source.connect(macs.network.sink),
                macs.network.source.connect(nic.wire_sink),
                nic.host_source.connect(macs.host.sink),
            ]
            for name in ("aw", "w", "b", "ar", "r"):
                channel = getattr(nic.bus, name)
                for member in ("valid", "ready", *(entry[0] for entry in channel.description.payload_layout)):
                    inward = (name in ("b", "r")) == (member == "ready")
                    signal = getattr(channel, member)
                    outer = pad(f"s_axil_{name}{member}", len(signal))
                    self.comb += signal.eq(outer) if inward else outer.eq(signal)

    loop = Loop()
    Path(out).write_text(str(convert(loop, set(ios), name="mac_loop")))


if __name__ == "__main__":
    main(*sys.argv[1:])
