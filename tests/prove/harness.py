# SPDX-License-Identifier: BSD-2-Clause
"""What a formal proof is made of: a harness around a component, its claims, and the faults it must find."""

from __future__ import annotations

from collections.abc import Callable, Iterable
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

    def add(self, component: Any, name: str = "dut", *, platform: Any = None) -> Inside:
        """Make ``component`` a submodule; what is inside can be named."""
        fragment = Fragment.get(component, platform)
        self.m.submodules[name] = fragment
        return Inside(fragment)

    def rtlil(self) -> str:
        """Return the harness in Yosys's intermediate form; its module is ``top``."""
        ports = [self.domain.clk, self.domain.rst]
        return rtlil.convert(self.m, ports=ports, name="top")


class Inside:
    """Signals and memories inside an elaborated component, by their names."""

    def __init__(self, fragment: Fragment):
        self.fragment = fragment

    def __getitem__(self, path: str) -> Any:
        """Return the signal of a path such as ``register.full``: submodules, then the signal's own name.

        One that the component drives comes before one that it reads.
        """
        for driven in (True, False):
            found = self.every(path, driven=driven)
            if len(found) == 1:
                return found[0]
        raise LookupError(f"{path} must name one signal of the component")

    def every(self, path: str, *, driven: bool = True) -> list[Any]:
        """Return the signals of that path that the component drives, or reads, in its statements' order."""
        *modules, name = path.split(".")
        found = {
            id(signal): signal
            for statements in self._at(modules).statements.values()
            for statement in statements
            for signal in (statement._lhs_signals() if driven else statement._rhs_signals())
            if signal.name == name
        }
        return list(found.values())

    def memory(self, path: str, address: Any) -> Value:
        """Return the word at ``address`` of the memory at a path of submodules.

        A read port of the harness gives it.
        """
        instance = self._at(path.split("."))
        if not isinstance(instance, MemoryInstance):
            raise LookupError(f"{path} must be a memory, not {instance!r}")
        width = Shape.cast(instance._data.shape).width
        word = Signal(width, name="word_" + path.replace(".", "_"))
        bits = (instance._data.depth - 1).bit_length()
        instance.read_port(
            domain="comb", addr=Value.cast(address)[:bits], data=word, en=Const(1), transparent_for=()
        )
        return word

    def _at(self, modules: Iterable[str]) -> Fragment:
        fragment = self.fragment
        for module in modules:
            fragment = fragment.find_subfragment(module)
        return fragment


def first_of(bits: Value) -> Value:
    """Position of the highest 1 of ``bits``, by a walk over all bits (0 if there is none)."""
    position: Value = Const(0, range(len(bits)))
    for place in range(len(bits)):
        position = Mux(bits[place], place, position)
    return position
