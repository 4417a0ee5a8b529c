# SPDX-License-Identifier: BSD-2-Clause
"""AXI4-Lite between two clocks in simulation, with resets of one side alone."""

import re
from pathlib import Path

import pytest
from clock_ports import ClockPorts

from inceptionn.hdl.attach.async_queue import CROSSING_ATTRIBUTE, CrossingPlatform
from inceptionn.hdl.attach.clock_crossing import AXI4LiteCrossing
from inceptionn.hdl.verilog import convert
from inceptionn.sim.runner import run_bench

BENCH = Path(__file__).with_name("axi_lite_crossing_bench.py")


@pytest.fixture(scope="module")
def verilog() -> str:
    crossing = AXI4LiteCrossing(master_domain="master", slave_domain="slave", addr_width=6)
    clocked = ClockPorts(crossing, "master", "slave")
    return convert(clocked, "axi_lite_crossing", platform=CrossingPlatform(), own_clocks=True)


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
