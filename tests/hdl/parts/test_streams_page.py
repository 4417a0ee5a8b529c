# SPDX-License-Identifier: BSD-2-Clause
"""The example of docs/streams.md: no item is lost with its slack, and one is with less."""

import random
import re
from pathlib import Path
from typing import Any

import pytest
from amaranth.hdl import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.sim import Simulator

from inceptionn.hdl.parts.axi import AXIStream
from inceptionn.hdl.parts.pipeline import Pipeline
from inceptionn.hdl.parts.queue import PushQueue

PAGE = Path(__file__).parents[3] / "docs" / "streams.md"


def scaler(code: str) -> wiring.Component:
    """Return the component that ``code`` defines."""
    names: dict[str, Any] = {
        "AXIStream": AXIStream, "In": In, "Module": Module, "Out": Out, "Pipeline": Pipeline,
        "PushQueue": PushQueue, "stream": stream, "wiring": wiring,
    }  # fmt: skip
    exec(compile(code, str(PAGE), "exec", dont_inherit=True), names)
    return names["Scaler"]()  # type: ignore[no-any-return]


def passed(dut: wiring.Component) -> tuple[list[int], list[int]]:
    """Return what must come out and what does, while the consumer sleeps, then takes at random."""
    source = random.Random(1)
    sent: list[int] = []
    came: list[int] = []

    async def bench(ctx: Any) -> None:
        ctx.set(dut.s_axis.tvalid, 1)
        for cycle in range(400):
            number = source.getrandbits(31)
            ctx.set(dut.s_axis.tdata, number)
            ctx.set(dut.o.ready, cycle > 60 and (cycle > 300 or source.random() < 0.6))
            ctx.set(dut.s_axis.tvalid, cycle < 300)
            if ctx.get(dut.s_axis.tready & dut.s_axis.tvalid):
                sent.append((2 * (number + 1) ^ 0xFFFF) & 0xFFFF_FFFF)
            if ctx.get(dut.o.valid & dut.o.ready):
                came.append(ctx.get(dut.o.payload))
            await ctx.tick()

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    return sent, came


def test_example() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    sent, came = passed(scaler(code))
    assert len(sent) > 100
    assert came == sent


@pytest.mark.parametrize("slack", [0, 3])
def test_example_with_too_little_slack(slack: int) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    sent, came = passed(scaler(code.replace("slack=4", f"slack={slack}")))
    assert came != sent
