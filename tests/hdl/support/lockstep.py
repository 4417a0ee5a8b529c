# SPDX-License-Identifier: BSD-2-Clause
"""Drives a pipeline cycle by cycle, and holds its outputs to the cycle in which each is due."""

import random
from collections import defaultdict
from typing import Any

from amaranth.lib.data import Layout
from cocotb.triggers import FallingEdge

from inceptionn.sim.testbench import TestBench

Places = dict[str, tuple[int, int, "Places"]]
"""Offset, mask and, of a structure, places within it, of each field of a layout."""


def places_of(shape: Any) -> Places:
    """Return the places of a structure's fields, of others none; Amaranth works them out at each look."""
    try:
        layout = Layout.cast(shape)
    except TypeError:
        return {}
    return {name: (field.offset, (1 << field.width) - 1, places_of(field.shape)) for name, field in layout}


class Fields:
    """A word by the names of its fields, as `amaranth.lib.data.Const`; none is signed."""

    def __init__(self, places: Places, word: int):
        self._places, self._word = places, word

    def __getitem__(self, name: str) -> Any:
        offset, mask, inside = self._places[name]
        bits = self._word >> offset & mask
        return Fields(inside, bits) if inside else bits

    def __getattr__(self, name: str) -> Any:
        return self[name]

    def as_bits(self) -> int:
        """Return the word."""
        return self._word


def _text(value: int | dict[str, int]) -> str:
    return f"{value:#x}" if isinstance(value, int) else str(value)


class Ports(dict[str, Any]):
    """The ports of a device by name, each looked for once, since cocotb takes long for that."""

    def __init__(self, dut: Any):
        super().__init__()
        self._dut = dut

    def __missing__(self, name: str) -> Any:
        self[name] = getattr(self._dut, name)
        return self[name]


class Lockstep(TestBench):
    """Cycles that run from one falling edge to the next.

    In a cycle, inputs are written first; registers then take them at the rising edge. So what a register
    shows in cycle *t* can be read at the head of it, and depends on inputs of cycles before.

    Parameters
    ----------
    pulses : inputs that are low in each cycle whose stimulus does not name them.
    quiet : outputs that are looked at in every cycle, with the value they have when nothing else is due.
    limit : cycles after which a bench is taken to hang.
    layouts : the structure of each port that is read or written by its fields, as a dictionary.
    """

    def __init__(
        self,
        dut,
        pulses: tuple[str, ...] = (),
        quiet: dict[str, int] | None = None,
        limit=100_000,
        layouts: dict[str, Any] | None = None,
    ):
        super().__init__(dut)
        self._ports = Ports(dut)
        self._places = {name: places_of(layout) for name, layout in (layouts or {}).items()}
        self.now = 0
        self.limit = limit
        self.checked = 0
        """Values compared because one was due."""
        self._pulses = pulses
        self._quiet = quiet or {}
        self._due: defaultdict[int, dict[str, Any]] = defaultdict(dict)

    async def reset(self) -> None:
        """Forgets what was due, and leaves the circuit in its reset state."""
        self._due.clear()
        for name in self._pulses:
            getattr(self.dut, name).value = 0
        await super().reset(16)
        await FallingEdge(self.dut.aclk)

    def read(self, name: str) -> int:
        """Return an output of the present cycle."""
        return int(self._ports[name].value)

    def fields(self, name: str) -> Fields:
        """Return an output of the present cycle, by its fields."""
        return Fields(self._places[name], self.read(name))

    def write(self, name: str, value: int | dict[str, int]) -> None:
        """Drive an input from now on; fields that ``value`` does not name are noise."""
        if isinstance(value, dict):
            word = 0
            for field, (offset, mask, _) in self._places[name].items():
                noise = random.getrandbits(mask.bit_length())
                word |= value.get(field, noise) << offset
            value = word
        self._ports[name].value = value

    def due(self, latency: int, **outputs: int | dict[str, int]) -> None:
        """Expect these values of outputs, or of fields of outputs, ``latency`` cycles from now."""
        self._due[self.now + latency].update(outputs)

    async def cycle(self, **inputs: int | dict[str, int]) -> None:
        """One cycle with these inputs; checks what is due in it."""
        expected = self._due.pop(self.now, {})
        for name, value in (self._quiet | expected if expected else self._quiet).items():
            if isinstance(value, dict):
                word, places = self.read(name), self._places[name]
                found: Any = {field: word >> places[field][0] & places[field][1] for field in value}
            else:
                found = self.read(name)
            assert found == value, f"cycle {self.now}: {name} is {_text(found)}, not {_text(value)}"
        self.checked += len(expected)
        for name in self._pulses:
            if name not in inputs:
                self._ports[name].value = 0
        for name, value in inputs.items():
            self.write(name, value)
        await FallingEdge(self.dut.aclk)
        self.now += 1
        assert self.now < self.limit, f"not done after {self.now} cycles"

    async def drain(self) -> None:
        """Idles until all that is due has come, and some cycles more, in which nothing may come."""
        while self._due:
            await self.cycle()
        for _ in range(20):
            await self.cycle()
