# SPDX-License-Identifier: BSD-2-Clause
"""The queue between two clocks in simulation, what it refuses, and the marks on its registers."""

import re
from pathlib import Path

import pytest
from clock_ports import ClockPorts

from inceptionn.hdl.attach.async_queue import CROSSING_ATTRIBUTE, AsyncQueue, CrossingPlatform
from inceptionn.hdl.verilog import convert
from inceptionn.sim.runner import run_bench

BENCH = Path(__file__).with_name("async_queue_bench.py")
DEPTH = 8


@pytest.fixture(scope="module")
def verilog() -> str:
    queue = AsyncQueue(16, DEPTH, write_domain="write", read_domain="read")
    return convert(
        ClockPorts(queue, "write", "read"), "async_queue", platform=CrossingPlatform(), own_clocks=True
    )


@pytest.mark.parametrize(
    ("write_ps", "read_ps"),
    [(4000, 10000), *(pytest.param(*more, marks=pytest.mark.slow) for more in ((10000, 4000), (4000, 4002)))],
)
def test_bench(write_ps: int, read_ps: int, verilog: str, tmp_path: Path) -> None:
    source = tmp_path / "async_queue.v"
    source.write_text(verilog)
    parameters = {"write_ps": write_ps, "read_ps": read_ps, "depth": DEPTH}
    run_bench(source, "async_queue", BENCH, parameters=parameters)


def test_registers_that_cross_are_marked(verilog: str) -> None:
    """Two pointers, six bits of the handshakes and resets, the data; and what keeps each side's reset."""
    expected = {CROSSING_ATTRIBUTE: 9, "inceptionn.reset_crossing": 4, "ASYNC_REG": 20}
    registers = re.findall(r"((?:  \(\* .* \*\)\n)+)  (?:output .*\n  )?reg ", verilog)
    found = {name: sum(f"{name} " in marks for marks in registers) for name in expected}
    assert found == expected


@pytest.mark.parametrize("depth", [0, 4, 12])
def test_depth_refused(depth: int) -> None:
    with pytest.raises(ValueError, match=rf"power of two of at least 8, not {depth}$"):
        AsyncQueue(8, depth, write_domain="write", read_domain="read")
