# SPDX-License-Identifier: BSD-2-Clause
"""What a formal proof is made of: a harness around a component, its claims, and the faults it must find."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from amaranth.back import rtlil
from amaranth.hdl import (
    Assert,
    Assume,
    ClockDomain,
    Const,
    Cover,
    Fragment,
    Module,
    Mux,
    Shape,
    Signal,
    Value,
    ValueCastable,
)
from amaranth.hdl._ast import AnyConst, AnySeq
from amaranth.hdl._mem import MemoryInstance


@dataclass(frozen=True)
class Fault:
    """A change of one place of the RTL's source that the proof must refute.

    ``module`` is below ``inceptionn.hdl``. ``old`` must stand there exactly once.
    """

    module: str
    old: str
    new: str

    def __str__(self) -> str:
        return f"{self.module.rpartition('.')[2]}: {self.old.strip()} -> {self.new.strip()}"


@dataclass(frozen=True)
class Proof:
    """One harness and how it is checked.

    Parameters
    ----------
    name : :class:`str`
        Unique; the component's name first, that of the catalogue if it is there.
    build : callable
        Adds component, assumptions, claims and covers to a :class:`Harness`.
    depth : :class:`int`
        Steps of the base case, and of the induction.
    faults : tuple of :class:`Fault`
        At least one.
    bounded : :class:`bool`
        Only the first ``depth`` cycles after reset are checked, without induction.
    cover_depth, refute_depth : :class:`int`
        Steps within which every cover must be reached, and every fault refuted; 0: ``depth``.
    apart : :class:`bool`
        In the induction, each claim is a question of its own; for claims that are too many for one.
    """

    name: str
    build: Callable[[Harness], None]
    depth: int
    faults: tuple[Fault, ...]
    bounded: bool = False
    cover_depth: int = 0
    refute_depth: int = 0
    apart: bool = False


class Harness:
    """A module with claims. A claim holds in every cycle, those of a reset in mid-run included."""

    def __init__(self, *, invariants: bool = True) -> None:
        self.m = Module()
        self.invariants = invariants
        self.domain = ClockDomain("sync")
        self.m.domains += self.domain
        self.texts: list[tuple[str, str]] = []
        """Kind (``"claim"``, ``"invariant"``, ``"assumption"``, ``"cover"``) and text, each once."""

    # Free values

    def anything(self, shape: Any, name: str) -> Signal:
        """Return a value that may be another one in each cycle."""
        return self._free(AnySeq, shape, name)

    def any_constant(self, shape: Any, name: str) -> Signal:
        """Return a value that may be any, and stays."""
        return self._free(AnyConst, shape, name)

    def _free(self, kind: Callable[[Shape], Value], shape: Any, name: str) -> Signal:
        value = Signal(shape, name=name)
        self.m.d.comb += value.eq(kind(Shape.cast(shape)))
        if isinstance(shape, range):
            self.m.d.comb += Assume(value < shape.stop)
        return value

    def past(self, value: Any, cycles: int = 1) -> Value:
        """``value`` as it was; no reset changes it."""
        for number in range(1, cycles + 1):
            later = Signal.like(Value.cast(value), name=f"past_{number}", reset_less=True)
            self.m.d.sync += later.eq(value)
            value = later
        return value

    def running(self, cycles: int) -> Value:
        """Whether this many cycles have passed since power-up and since the last reset."""
        count = Signal(range(cycles + 1), name="running")
        with self.m.If(count != cycles):
            self.m.d.sync += count.eq(count + 1)
        return count == cycles

    # Statements

    def _add(self, kind: str, text: str, statement: Any) -> None:
        if (kind, text) not in self.texts:
            self.texts.append((kind, text))
        statement.src_loc = ("text", self.texts.index((kind, text)))
        self.m.d.comb += statement

    def claim(self, text: str, condition: Any) -> None:
        """Add a claim, which is to be proved."""
        self._add("claim", text, Assert(condition))

    def invariant(self, text: str, condition: Any) -> None:
        """Add a claim about the inside of the component; induction needs it, and proves it too.

        A seeded fault must be refuted by a claim, so runs with one go without.
        """
        if self.invariants:
            self._add("invariant", text, Assert(condition))

    def narrow(self, condition: Any) -> None:
        """Leave out runs in which a seeded fault need not be looked for: one run refutes a claim."""
        if not self.invariants:
            self.m.d.comb += Assume(condition)

    def assume(self, text: str, condition: Any) -> None:
        """Add an assumption: what the surroundings promise."""
        self._add("assumption", text, Assume(condition))

    def cover(self, text: str, condition: Any) -> None:
        """Add a situation that must be reachable, so that no claim holds for want of a case."""
        self._add("cover", text, Cover(condition))

    # The component

    def add(self, component: Any, name: str = "dut", *, platform: Any = None, probed: Any = None) -> Inside:
        """Make ``component`` a submodule; return its probes, or those of ``probed``, which it wraps."""
        fragment = Fragment.get(component, platform)
        self.m.submodules[name] = fragment
        return Inside(probed or component, fragment)

    def rtlil(self) -> str:
        """Return the harness in Yosys's intermediate form; its module is ``top``."""
        ports = [self.domain.clk, self.domain.rst]
        return rtlil.convert(self.m, ports=ports, name="top")


class Inside:
    """What a component declares of its inside: its probes and ports, and those of the parts among them."""

    def __init__(self, component: Any, fragment: Fragment):
        self.component, self.fragment = component, fragment

    def __getitem__(self, path: str) -> Any:
        """Return the signal at a path such as ``register.full``; a number is a place in a list."""
        found = self._at(path)
        return Value.cast(found) if isinstance(found, ValueCastable) else found

    def memory(self, path: str, address: Any) -> Value:
        """Return the word at ``address`` of the RAM at a path; a read port of the harness gives it."""
        wanted = self._at(f"{path}.memory")
        (instance,) = (one for one in self._memories(self.fragment) if one._data is wanted)
        width = Shape.cast(wanted.shape).width
        word = Signal(width, name="word_" + path.replace(".", "_"))
        bits = (wanted.depth - 1).bit_length()
        instance.read_port(
            domain="comb", addr=Value.cast(address)[:bits], data=word, en=Const(1), transparent_for=()
        )
        return word

    def _at(self, path: str) -> Any:
        found = self.component
        for name in path.split("."):
            known = found if isinstance(found, dict) else getattr(found, "probes", {})
            if name in known:
                found = known[name]
            elif isinstance(found, list) or int_of(name) in known:
                found = (found if isinstance(found, list) else known)[int_of(name)]
            elif name in getattr(getattr(found, "signature", None), "members", ()):
                found = getattr(found, name)
            else:
                raise LookupError(f"{path}: {type(found).__name__} declares no probe {name!r}")
        return found

    def _memories(self, fragment: Fragment) -> Iterator[MemoryInstance]:
        if isinstance(fragment, MemoryInstance):
            yield fragment
        for part, *_ in fragment.subfragments:
            yield from self._memories(part)


def int_of(name: str) -> int:
    """Return a place in a list, or -1."""
    return int(name) if name.isdecimal() else -1


def first_of(bits: Value) -> Value:
    """Position of the highest 1 of ``bits``, by a walk over all bits (0 if there is none)."""
    position: Value = Const(0, range(len(bits)))
    for place in range(len(bits)):
        position = Mux(bits[place], place, position)
    return position
