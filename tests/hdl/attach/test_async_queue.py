# SPDX-License-Identifier: BSD-2-Clause
"""The queue between two clocks in simulation, what it refuses, and the marks on its registers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from amaranth.hdl import ClockDomain, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from inceptionn.hdl.attach.async_queue import CROSSING_ATTRIBUTE, AsyncQueue, CrossingPlatform
from inceptionn.hdl.verilog import convert
from inceptionn.sim.runner import run_bench

BENCH = Path(__file__).with_name("async_queue_bench.py")
DEPTH = 8


class _Clocked(wiring.Component):
    """The queue with its clocks and resets as ports."""

    def __init__(self) -> None:
        queue = AsyncQueue(16, DEPTH, write_domain="write", read_domain="read")
        clocks = {f"{side}_{name}": In(1) for side in ("write", "read") for name in ("clk", "rst")}
        self.queue = queue
        super().__init__({**clocks, **dict(queue.signature.members.items())})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        for side in ("write", "read"):
            domain = ClockDomain(side)
            domain.clk, domain.rst = getattr(self, f"{side}_clk"), getattr(self, f"{side}_rst")
            m.domains += domain
        m.submodules.queue = self.queue
        wiring.connect(m, wiring.flipped(self.i), self.queue.i)
        wiring.connect(m, self.queue.o, wiring.flipped(self.o))
        return m


@pytest.fixture(scope="module")
def verilog() -> str:
    return convert(_Clocked(), "async_queue", platform=CrossingPlatform(), own_clocks=True)


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
