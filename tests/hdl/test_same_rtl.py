# SPDX-License-Identifier: BSD-2-Clause
"""What the comparison of two circuits takes for the same hardware, and what not."""

import importlib.util
from pathlib import Path
from typing import Any

import pytest
from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from inceptionn.hdl.verilog import to_rtlil

spec = importlib.util.spec_from_file_location("same_rtl", Path(__file__).with_name("same_rtl.py"))
assert spec is not None
assert spec.loader is not None
same_rtl = importlib.util.module_from_spec(spec)
spec.loader.exec_module(same_rtl)


class Accumulator(wiring.Component):
    """A sum and a memory of the last terms; each argument changes one thing about it."""

    def __init__(
        self,
        *,
        name: str = "total",
        init: int = 0,
        step: int = 1,
        depth: int = 4,
        detour: bool = False,
        gates: int = 1,
        registers: int = 1,
        spare: bool = False,
    ):
        self.name, self.init, self.step, self.depth, self.detour = name, init, step, depth, detour
        self.gates, self.registers = gates, registers
        members = {"term": In(8), "sum": Out(8), "old": Out(8), "flags": Out(2), "copies": Out(2)}
        super().__init__(members | ({"spare": In(1)} if spare else {}))

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        total = Signal(8, name=self.name, init=self.init)
        place = Signal(range(self.depth))
        m.submodules.memory = memory = Memory(shape=8, depth=self.depth, init=[])
        write = memory.write_port()
        read = memory.read_port()
        m.d.sync += [total.eq(total + self.term), place.eq(place + self.step)]
        m.d.comb += [write.addr.eq(place), write.data.eq(self.term), write.en.eq(1), read.addr.eq(place)]
        m.d.comb += [read.en.eq(1), self.old.eq(read.data)]
        # Two flags and two copies of the term's lowest bits, from as many gates and registers as asked for.
        flags = [Signal(name=f"flag{i}") for i in range(2)]
        copies = [Signal(name=f"copy{i}") for i in range(self.registers)]
        once = self.term.any() & self.term[0]
        again = once if self.gates == 2 else flags[0]
        m.d.comb += [flags[0].eq(once), flags[1].eq(again), self.flags.eq(Cat(flags))]
        m.d.sync += [copy.eq(self.term[0]) for copy in copies]
        m.d.comb += self.copies.eq(Cat(copies[0], copies[-1]))
        if self.detour:
            between = Signal(8)
            m.d.comb += [between.eq(total), self.sum.eq(between)]
        else:
            m.d.comb += self.sum.eq(total)
        return m


def verdict(before: Accumulator, after: Accumulator, folder: Path, name: str = "accumulator") -> str:
    paths = folder / f"{name}.il", folder / "after.il"
    for path, circuit in zip(paths, (before, after), strict=True):
        path.write_text(to_rtlil(circuit, "accumulator"))
    return str(same_rtl.compare(*paths, folder))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "same"),
        ({"name": "result"}, "renamed"),
        ({"detour": True}, "equal netlist"),
        ({"gates": 2}, "equal netlist"),
        ({"registers": 2}, "DIFFERENT"),
        ({"init": 1}, "DIFFERENT"),
        ({"step": 3}, "DIFFERENT"),
        ({"depth": 8}, "DIFFERENT"),
    ],
)
def test_verdict(changes: dict[str, Any], expected: str, tmp_path: Path) -> None:
    assert verdict(Accumulator(), Accumulator(**changes), tmp_path) == expected


def test_fewer_copies(tmp_path: Path) -> None:
    """A register may go if another holds the same value; nothing else may change with it."""
    copied = Accumulator(registers=2)
    assert verdict(copied, Accumulator(), tmp_path) == "fewer copies"
    assert verdict(copied, Accumulator(step=3), tmp_path) == "DIFFERENT"


@pytest.mark.parametrize(
    ("name", "expected"),
    [("nic_part", "new ports"), ("top accumulator", "DIFFERENT"), ("nic lanes=16", "DIFFERENT")],
)
def test_ports(name: str, expected: str, tmp_path: Path) -> None:
    """A part's ports may change with the circuits that contain it; those that are handed out keep theirs."""
    assert verdict(Accumulator(), Accumulator(spare=True), tmp_path, name) == expected


def test_one_side_only(tmp_path: Path) -> None:
    assert same_rtl.compare(None, tmp_path, tmp_path) == "new"
    assert same_rtl.compare(tmp_path, None, tmp_path) == "only in BASE"


def test_a_register_of_two_names_has_one_initial_value() -> None:
    """Yosys writes it at the register's own name, and "x" at that of a port which the register drives."""
    register = {"type": "$_DFF_P_", "parameters": {}, "connections": {"C": [2], "D": [3], "Q": [4]}}
    register["port_directions"] = {"C": "input", "D": "input", "Q": "output"}
    inputs = {name: {"direction": "input", "bits": [bit]} for name, bit in (("clock", 2), ("term", 3))}
    output = {"sum": {"direction": "output", "bits": [4]}}

    def labels(**initial: str) -> object:
        names = {name: {"bits": [4], "attributes": {"init": value}} for name, value in initial.items()}
        return same_rtl.labels({"ports": inputs | output, "cells": {"r": register}, "netnames": names})

    assert labels(above="0", sum="x") == labels(sum="0")
    assert labels(above="1", sum="x") != labels(sum="0")
