# SPDX-License-Identifier: BSD-2-Clause
"""From an Amaranth component to a Verilog-2001 module with flat, standard port names."""

import gc
import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from typing import Any

from amaranth.back import rtlil
from amaranth.hdl import ClockDomain, Elaboratable, Fragment, Module, Mux, Signal, ValueCastable
from amaranth.hdl._ir import PortDirection as PortDirection
from amaranth.lib import wiring

from .parts.top import Top
from .yosys import find_yosys

_HANDSHAKE = re.compile(r"(?:t|aw|w|b|ar|r)(?:valid|ready)")


class _Clocked(Elaboratable):
    """A component in a ``sync`` domain of its own, clocked by ``aclk``, reset by a registered ``~aresetn``.

    The register keeps the reset's fan-out out of the input's timing. Every flip-flop leaves reset one cycle
    after ``aresetn`` rises; of a :class:`Top` after its ``RESET`` cycles, when its handshakes open.
    """

    def __init__(self, component: wiring.Component):
        self.component = component
        self.domain = ClockDomain("sync")
        self.aresetn = Signal()
        clock, reset = (self.domain.clk, PortDirection.Input), (self.aresetn, PortDirection.Input)
        self.ports = {"aclk": clock, "aresetn": reset, **flat_ports(component)}
        self._handshakes: list[tuple[Signal, Signal]] = []
        """Outputs of a :class:`Top`, each with the port that shows it while no register is in reset."""
        for name, (inner, direction) in self.ports.items() if isinstance(component, Top) else ():
            if direction is PortDirection.Output and _HANDSHAKE.fullmatch(name.rpartition("_")[2]):
                port = Signal(name=name)
                self._handshakes.append((inner, port))
                self.ports[name] = port, direction

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        unreset = ClockDomain("unreset", reset_less=True, local=True)
        unreset.clk = self.domain.clk
        m.domains += self.domain, unreset
        m.submodules.core = self.component
        if not isinstance(self.component, Top):
            m.d.unreset += self.domain.rst.eq(~self.aresetn)
            return m
        left = Signal(range(Top.RESET))  # cycles of the reset after the next
        m.d.unreset += [
            self.domain.rst.eq(~self.aresetn | (left != 0)),
            left.eq(Mux(self.aresetn, left - (left != 0), Top.RESET - 1)),
        ]
        running = Signal()
        m.d.comb += running.eq(self.aresetn & ~self.domain.rst)
        m.d.comb += [port.eq(inner & running) for inner, port in self._handshakes]
        return m


def flat_ports(component: wiring.Component) -> dict[str, tuple[Signal, PortDirection]]:
    """Map port names to signals and directions; signature paths are joined by one underscore.

    An example is ``s_axis_tdata``. Constant members, such as ``ready`` of a stream that is always ready, are
    not ports.
    """
    ports = {}
    for path, member, value in component.signature.flatten(component):
        if isinstance(value, ValueCastable):
            value = value.as_value()
        if isinstance(value, Signal):
            incoming = member.flow == wiring.In
            direction = PortDirection.Input if incoming else PortDirection.Output
            ports["_".join(map(str, path))] = (value, direction)
    return ports


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Stop the garbage collector in this context.

    Amaranth keeps its objects to the end; looking for garbage among them is a quarter of the time.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@_no_garbage_collection()
def to_rtlil(
    component: wiring.Component, name: str, *, platform: Any = None, has_clocks: bool = False,
    sources: dict[str, str] | None = None, lines: bool = False,
) -> str:  # fmt: skip
    """Emit ``component`` as RTLIL (Yosys's intermediate form), with module name ``name``.

    Its ports are ``aclk``, ``aresetn``, then those of :func:`flat_ports`. With ``has_clocks`` the component
    makes its clock domains from its own ports, and the first two are omitted. The same component gives the
    same bytes, without any source path, so the text can be the component's key in a cache. ``sources`` gets
    the Verilog name of each module, and where it comes from: ``"hdl/nic.py:Nic"``. With ``lines`` each cell
    and wire has path and line of its source, as attribute ``src``.
    """
    top: Any = component
    ports = flat_ports(component)
    if not has_clocks:
        top = _Clocked(component)
        ports = top.ports
    design = Fragment.get(top, platform).prepare(ports=ports, hierarchy=(name,))
    text, _ = rtlil.convert_fragment(design, ports, name, emit_src=lines)
    if sources is not None:
        emitted = set(_MODULE.findall(text))
        for elaboratable, fragment in design.elaboratables.items():
            path = ".".join(design.fragments[fragment].name)
            if path in emitted:
                sources.setdefault(_verilog_name(path), _source(elaboratable))  # a component, then its Module
    return _order_ports(text, name, list(ports))


_MODULE = re.compile(r"^module \\(\S+)$", re.MULTILINE)


def _verilog_name(path: str) -> str:
    """Return the Verilog name of the module at a path of RTLIL: joined by underscores."""
    return re.sub(r"\W", "_", path) if "." in path else path


def _source(elaboratable: Elaboratable) -> str:
    """Return the file, relative to the package or library, and the class: ``"hdl/nic.py:Nic"``."""
    kind = type(elaboratable)
    package, _, rest = kind.__module__.partition(".")
    place = rest if package == "inceptionn" else kind.__module__
    return f"{place.replace('.', '/')}.py:{kind.__qualname__}"


def _order_ports(text: str, name: str, order: list[str]) -> str:
    """Return ``text`` with the ports of module ``name`` numbered in this order, from 1.

    Amaranth numbers them from 0, which Yosys reads as "no number" and moves to the end: the clock.
    """
    start = text.index(f"module \\{name}\n")
    end = text.index("\nend\n", start)
    places = {port: place for place, port in enumerate(order, 1)}
    ports = re.compile(r"^(  wire .*(?:input|output)) +\d+ +\\(\S+)$", re.MULTILINE)
    body, found = ports.subn(lambda match: f"{match[1]} {places[match[2]]} \\{match[2]}", text[start:end])
    if found != len(order):
        raise RuntimeError(f"expected {len(order)} ports in Amaranth's output, found {found}")
    return text[:start] + body + text[end:]


def to_verilog(text: str) -> str:
    """Emit a whole RTLIL design as Verilog-2001.

    Processes are lowered completely (``proc``), since Icarus 11 leaves combinational outputs of the default
    form at X (amaranth issue 1629). A submodule is named by its path, joined by underscores, so its name
    begins with the top's. The header has the licence, the versions and the hash of ``text``: equal hashes
    mean equal circuits, whichever Yosys emitted them.
    """
    source = hashlib.sha256(text.encode())
    paths = [module for module in _MODULE.findall(text) if "." in module]
    names = {path: _verilog_name(path) for path in paths}
    if len(set(names.values())) < len(paths):
        raise ValueError(f"two submodules would have one name: {sorted(names.values())!r}")
    named = re.compile(r"^( *(?:module|cell) \\)(\S+)", re.MULTILINE)
    text = named.sub(lambda match: match[1] + names.get(match[2], match[2]), text)
    script = [
        f"read_rtlil <<rtlil\n{text}\nrtlil",
        "proc",
        "pmuxtree",  # a $pmux becomes a function, whose name Icarus 11 reads as a system function
        "opt_clean",
        "memory_collect",
        "attrmap -remove generator -remove src -remove amaranth.hierarchy -remove amaranth.decoding",
        "setattr -mod -unset generator -unset top",
        "write_verilog -norename",
    ]
    verilog = find_yosys().run(["-q", "-"], "\n".join(script), ignore_warnings=True)
    # Yosys's first line has the path in which Yosys was built.
    yosys = re.match(r"/\* Generated by (Yosys \S+)", verilog)
    tools = f"Amaranth {version('amaranth')} and {yosys[1] if yosys else 'Yosys'}"
    head = (
        "// SPDX-License-Identifier: BSD-2-Clause\n"
        f"// Written by inceptionn {version('inceptionn')} with {tools}. Do not edit.\n"
        f"// Source: SHA-256 of its RTLIL {source.hexdigest()}\n"
    )
    return head + verilog.partition("\n")[2]


def convert(
    component: wiring.Component, name: str, *, platform: Any = None, has_clocks: bool = False,
    sources: dict[str, str] | None = None,
) -> str:  # fmt: skip
    """Emit ``component`` as Verilog-2001, module ``name``, with ports ``aclk``, ``aresetn``, then its own.

    The same input gives the same bytes (see `to_rtlil`, also for ``has_clocks`` and ``sources``, and
    `to_verilog`).
    """
    text = to_rtlil(component, name, platform=platform, has_clocks=has_clocks, sources=sources)
    return to_verilog(text)
