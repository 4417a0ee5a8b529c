# SPDX-License-Identifier: BSD-2-Clause
"""What passes between clocks in simulation, and the marks on its registers.

One AXI4-Lite port for several register banks has a clock and resets of its own for each.
"""

import re
from pathlib import Path
from typing import Any

import pytest
from amaranth.hdl import DomainRenamer, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from clock_ports import ClockPorts, add_domains

from inceptionn.hdl.attach.async_queue import CROSSING_ATTRIBUTE, AsyncQueue, CrossingPlatform
from inceptionn.hdl.attach.axi_lite_decoder import AXI4LiteDecoder
from inceptionn.hdl.attach.clock_crossing import AXI4LiteCrossing
from inceptionn.hdl.control.axi_lite import AXI4Lite
from inceptionn.hdl.verilog import convert
from inceptionn.sim.runner import run_bench

DEPTH = 8
PAGE_WIDTH, ADDRESS_WIDTH = 6, 12
# Of a queue: two pointers, six bits of the handshakes and resets, the data; and what keeps each side's reset.
# Of a crossing: those of four queues, and those of the resets and settings.
RESETS = 4 * 4 + 2 * 4
MARKS = {
    "async_queue": {CROSSING_ATTRIBUTE: 9, "inceptionn.reset_crossing": 4, "ASYNC_REG": 20},
    "axi_lite_crossing": {
        CROSSING_ATTRIBUTE: 4 * 9 + 2, "inceptionn.reset_crossing": RESETS, "ASYNC_REG": RESETS + 4 * 16 + 4,
    },
}  # fmt: skip


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


def verilog(name: str, slaves: int = 0) -> str:
    """Emit a queue, a crossing, or banks, with clocks as ports."""
    if name == "async_queue":
        part: Any = AsyncQueue(16, DEPTH, write_domain="write", read_domain="read")
        part = ClockPorts(part, "write", "read")
    elif name == "axi_lite_crossing":
        part = AXI4LiteCrossing(master_domain="master", slave_domain="slave", addr_width=6)
        part = ClockPorts(part, "master", "slave")
    else:
        part = _Banks(slaves)
    return convert(part, name, platform=CrossingPlatform(), has_clocks=True)


def run(name: str, folder: Path, slaves: int = 0, /, **parameters: int) -> None:
    source = folder / f"{name}.v"
    source.write_text(verilog(name, slaves))
    run_bench(source, name, Path(__file__).with_name(f"{name}_bench.py"), parameters=parameters)


def rarely(*periods: int) -> Any:
    return pytest.param(*periods, marks=pytest.mark.slow)


@pytest.mark.parametrize(("write", "read"), [(4000, 10000), rarely(10000, 4000), rarely(4000, 4002)])
def test_queue(write: int, read: int, tmp_path: Path) -> None:
    run("async_queue", tmp_path, write_ps=write, read_ps=read, depth=DEPTH)


@pytest.mark.parametrize(("master", "slave"), [(4000, 10000), rarely(10000, 4000), rarely(7000, 7002)])
def test_axi_lite(master: int, slave: int, tmp_path: Path) -> None:
    """With resets of one side alone."""
    run("axi_lite_crossing", tmp_path, master_ps=master, slave_ps=slave)


@pytest.mark.parametrize("slaves", [rarely(1), 3])
def test_banks(slaves: int, tmp_path: Path) -> None:
    run("axi_lite_decoder", tmp_path, slaves, slaves=slaves, page=1 << PAGE_WIDTH, size=1 << ADDRESS_WIDTH)


@pytest.mark.parametrize("name", MARKS)
def test_registers_that_cross_are_marked(name: str) -> None:
    registers = re.findall(r"((?:  \(\* .* \*\)\n)+)  (?:output .*\n  )?reg ", verilog(name))
    assert {mark: sum(f"{mark} " in marks for marks in registers) for mark in MARKS[name]} == MARKS[name]
