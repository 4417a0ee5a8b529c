# SPDX-License-Identifier: BSD-2-Clause
"""One AXI4-Lite port for several register banks in simulation, each with a clock and resets of its own."""

from pathlib import Path
from typing import Any

import pytest
from amaranth.hdl import DomainRenamer, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from clock_ports import add_domains

from inceptionn.hdl.attach.async_queue import CrossingPlatform
from inceptionn.hdl.attach.axi_lite_decoder import AXI4LiteDecoder
from inceptionn.hdl.attach.clock_crossing import AXI4LiteCrossing
from inceptionn.hdl.control.axi_lite import AXI4Lite
from inceptionn.hdl.verilog import convert
from inceptionn.sim.runner import run_bench

BENCH = Path(__file__).with_name("axi_lite_decoder_bench.py")
PAGE_WIDTH, ADDRESS_WIDTH = 6, 12


class _Banks(wiring.Component):
    """The decoder before a crossing for each slave, as in the shells; clocks and resets are ports."""

    def __init__(self, slaves: int) -> None:
        self.slaves = slaves
        members: dict[str, Any] = {"master_clk": In(1), "master_rst": In(1), "slave_clk": In(1)}
        for n in range(slaves):
            members |= {f"slave{n}_rst": In(1), f"m_axil{n}": Out(AXI4Lite(PAGE_WIDTH))}
        super().__init__(members | {"s_axil": In(AXI4Lite(ADDRESS_WIDTH))})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        slaves = {f"slave{n}": (self.slave_clk, getattr(self, f"slave{n}_rst")) for n in range(self.slaves)}
        add_domains(m, master=(self.master_clk, self.master_rst), **slaves)
        decoder = AXI4LiteDecoder(self.slaves, page_width=PAGE_WIDTH, addr_width=ADDRESS_WIDTH)
        m.submodules.decoder = DomainRenamer("master")(decoder)
        wiring.connect(m, wiring.flipped(self.s_axil), decoder.s_axil)
        for n in range(self.slaves):
            crossing = AXI4LiteCrossing(
                master_domain="master", slave_domain=f"slave{n}", addr_width=PAGE_WIDTH
            )
            m.submodules[f"crossing{n}"] = crossing
            m.d.comb += decoder.alive[n].eq(crossing.alive)
            wiring.connect(m, decoder.m_axil[n], crossing.s_axil)
            wiring.connect(m, crossing.m_axil, wiring.flipped(getattr(self, f"m_axil{n}")))
        return m


@pytest.mark.parametrize("slaves", [pytest.param(1, marks=pytest.mark.slow), 3])
def test_bench(slaves: int, tmp_path: Path) -> None:
    source = tmp_path / "banks.v"
    source.write_text(convert(_Banks(slaves), "banks", platform=CrossingPlatform(), own_clocks=True))
    parameters = {"slaves": slaves, "page": 1 << PAGE_WIDTH, "size": 1 << ADDRESS_WIDTH}
    run_bench(source, "banks", BENCH, parameters=parameters)


@pytest.mark.parametrize(("slaves", "page_width", "addr_width"), [(0, 10, 12), (5, 10, 12), (2, 12, 12)])
def test_what_does_not_fit_is_refused(slaves: int, page_width: int, addr_width: int) -> None:
    with pytest.raises(ValueError, match=rf"not \({slaves}, {page_width}, {addr_width}\)$"):
        AXI4LiteDecoder(slaves, page_width=page_width, addr_width=addr_width)
