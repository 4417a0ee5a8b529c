# SPDX-License-Identifier: BSD-2-Clause
"""AXI4-Lite between two clocks in simulation, with resets of one side alone."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from amaranth.hdl import ClockDomain, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from inceptionn.hdl.attach.async_queue import CROSSING_ATTRIBUTE, CrossingPlatform
from inceptionn.hdl.attach.clock_crossing import AXI4LiteCrossing
from inceptionn.hdl.verilog import convert
from inceptionn.sim.runner import run_bench

BENCH = Path(__file__).with_name("axi_lite_crossing_bench.py")
SIDES = ("master", "slave")


class _Clocked(wiring.Component):
    """The crossing with its clocks and resets as ports."""

    def __init__(self) -> None:
        self.crossing = AXI4LiteCrossing(master_domain="master", slave_domain="slave", addr_width=6)
        clocks = {f"{side}_{name}": In(1) for side in SIDES for name in ("clk", "rst")}
        super().__init__({**clocks, **dict(self.crossing.signature.members.items())})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        for side in SIDES:
            domain = ClockDomain(side)
            domain.clk, domain.rst = getattr(self, f"{side}_clk"), getattr(self, f"{side}_rst")
            m.domains += domain
        m.submodules.crossing = crossing = self.crossing
        wiring.connect(m, wiring.flipped(self.s_axil), crossing.s_axil)
        wiring.connect(m, crossing.m_axil, wiring.flipped(self.m_axil))
        m.d.comb += self.alive.eq(crossing.alive)
        return m


@pytest.fixture(scope="module")
def verilog() -> str:
    return convert(_Clocked(), "axi_lite_crossing", platform=CrossingPlatform(), own_clocks=True)


@pytest.mark.parametrize(
    ("master_ps", "slave_ps"),
    [(4000, 10000), *(pytest.param(*more, marks=pytest.mark.slow) for more in ((10000, 4000), (7000, 7002)))],
)
def test_bench(master_ps: int, slave_ps: int, verilog: str, tmp_path: Path) -> None:
    source = tmp_path / "axi_lite_crossing.v"
    source.write_text(verilog)
    parameters = {"master_ps": master_ps, "slave_ps": slave_ps}
    run_bench(source, "axi_lite_crossing", BENCH, parameters=parameters)


def test_registers_that_cross_are_marked(verilog: str) -> None:
    """Those of four queues, as test_async_queue counts them, and those of the resets and settings."""
    resets, others = 4 * 4 + 2 * 4, 4 * 9 + 2
    expected = {
        CROSSING_ATTRIBUTE: others,
        "inceptionn.reset_crossing": resets,
        "ASYNC_REG": resets + 4 * 16 + 4,
    }
    registers = re.findall(r"((?:  \(\* .* \*\)\n)+)  (?:output .*\n  )?reg ", verilog)
    found = {name: sum(f"{name} " in marks for marks in registers) for name in expected}
    assert found == expected
