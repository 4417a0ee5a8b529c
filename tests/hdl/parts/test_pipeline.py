# SPDX-License-Identifier: BSD-2-Clause
"""The pipeline helper: when values arrive, what its signals are called, and what it refuses."""

import re
from typing import Any

import pytest
from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.sim import Simulator
from refusals import refused

from inceptionn.hdl.parts.pipeline import Pipeline
from inceptionn.hdl.verilog import to_rtlil


class Scaled(wiring.Component):
    """``(a + b) * scale`` of two cycles before; ``b`` comes one cycle after ``a``."""

    valid: In(1)
    a: In(8)
    b: In(8)
    scale: In(4)
    result: Out(13)
    result_valid: Out(1)

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        p = Pipeline(m, "scaled_", control={"valid"})
        p.let(valid=self.valid, scale=self.scale, unread=self.a)
        p.stage(sum=self.a)
        p.stage(sum=p.sum + self.b)
        m.d.comb += [self.result.eq(p.sum * p.scale), self.result_valid.eq(p.valid)]
        return m


def test_values_arrive_together() -> None:
    dut = Scaled()
    inputs = [(cycle % 3 != 0, 7 * cycle % 256, 91 * cycle % 256, cycle % 16) for cycle in range(100)]

    async def bench(context: Any) -> None:
        for cycle, (valid, a, b, scale) in enumerate(inputs):
            context.set(dut.valid, valid)
            context.set(dut.a, a)
            context.set(dut.b, b)
            context.set(dut.scale, scale)
            if cycle >= 2:
                before, between = inputs[cycle - 2], inputs[cycle - 1]
                assert context.get(dut.result_valid) == before[0]
                assert context.get(dut.result) == (before[1] + between[2]) * before[3]
            await context.tick()

    simulator = Simulator(dut)
    simulator.add_clock(1e-8)
    simulator.add_testbench(bench)
    simulator.run()


def test_names_and_resets() -> None:
    text = to_rtlil(Scaled(), "scaled")
    names = set(re.findall(r"wire (?:width \d+ )?\\(scaled_\w+)", text))
    # An alias of an input has no wire of its own.
    assert names == {f"scaled_{name}_{stage}" for name in ("valid", "scale", "sum") for stage in (1, 2)}
    assert "$signal" not in text
    m = Module()
    p = Pipeline(m, control={"valid"})
    p.stage(valid=Signal(), data=Signal(8, init=1))
    assert not p.valid.reset_less
    assert p.data.reset_less
    assert p.data.init == 0


def test_until_carries() -> None:
    m = Module()
    p = Pipeline(m)
    p.let(early=Signal(8))
    p.until(2)
    p.let(late=Signal(4))
    p.until(3)
    assert (p.early.name, p.late.name) == ("early_3", "late_3")
    p.until(3)
    assert p.early.name == "early_3"
    refused(ValueError, "in stage 3 cannot go back to stage 2", p.until, 2)


@pytest.mark.parametrize("name", ["let", "stage", "until", "_values"])
def test_member_names_refused(name: str) -> None:
    refused(ValueError, f"name of a member, '{name}'", Pipeline(Module()).let, **{name: 1})


def test_misuse() -> None:
    refused(TypeError, "go to a Module, not 'm'", Pipeline, "m")
    refused(TypeError, "collection of names, not 'valid'", Pipeline, Module(), control="valid")
    m = Module()
    p = Pipeline(m)
    p.stage(data=Signal(8))
    refused(ValueError, "stage 1 has a value 'data' already", p.let, data=Signal(8))
    with pytest.raises(AttributeError, match="stage 1 has no value 'date'"):
        _ = p.date
    condition = Signal()
    p.stage()
    with m.If(condition), pytest.raises(RuntimeError, match="'data' of stage 2 would depend"):
        _ = p.data
