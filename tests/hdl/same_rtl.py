# SPDX-License-Identifier: BSD-2-Clause
"""Compares the hardware of two commits: ``python tests/hdl/same_rtl.py BASE``, or ``make same-rtl BASE=...``.

Every variant of every catalogued component, every top, every board's shell and the bring-up design is
emitted as RTLIL, once from BASE and once from the working tree. The verdicts, strictest first:

- ``same``: the text is equal.
- ``renamed``: it is equal when signals, cells and submodules are numbered in order of appearance.
- ``equal netlist``: after flattening, both have the same cells, each driven by the same logic. A cell's
  label is refined by the labels of its inputs until no more labels can be told apart (Weisfeiler-Lehman).
  Gates of one label compute the same and count once; registers and memories count each. A register that
  never leaves its initial value is a constant.
- ``fewer copies``: as before, but the working tree has fewer registers that hold the same value. Synthesis
  merges such registers.
- ``new ports``: a component within others whose ports changed cannot be compared by itself; those that
  contain it can. A top, a shell or the NIC must keep its ports.
- ``DIFFERENT``, ``only in BASE``, ``new``.

The exit status is 1 if anything is different or only in BASE.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from inspect import signature
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PACKAGES = ("hdl", "sim", "boards", "constraints")
LARGE = 3
"""Variants of the NIC below this number are compared by default; the others take minutes to emit."""
_EMITTED = re.compile(r"(top|shell|bring-up|nic|planes_nic)\b")
"""Names of circuits that are handed out, so their ports are part of the promise."""
_RENAMED = {"transmit_settling": "transmit_resolving"}
"""Names in the catalogue of an older BASE, to those of today."""
_ARITHMETIC = {"$add", "$sub", "$eq", "$ne", "$lt", "$le", "$gt", "$ge", "$logic_not"}
"""Types of Yosys cells that extend their operands as numbers."""
_GATE = re.compile(r"\$(?!.*ff|.*latch|mem)", re.IGNORECASE)
"""Types of Yosys cells that hold nothing."""


def circuits(everything: bool) -> Iterator[tuple[str, Any, str, bool]]:
    """Name, factory, module and "has clocks of its own" of each circuit of the importable project."""
    from inceptionn.boards.board import Options
    from inceptionn.boards.bring_up.core import BringUpCore
    from inceptionn.boards.generate import BOARDS, load_board
    from inceptionn.hdl.catalogue import CATALOGUE
    from inceptionn.hdl.codec.codecs import CODECS
    from inceptionn.hdl.inline.device import InlineDevice
    from inceptionn.hdl.tops import TOPS
    from inceptionn.sim.inline.pins import InlinePins

    for module, factory in TOPS.items():
        yield f"top {module}", factory, module, False
    for old, entry in CATALOGUE.items():
        name = _RENAMED.get(old, old)
        for variant, arguments in enumerate(entry.variants):
            if everything or not (name == "nic" and variant >= LARGE):
                words = " ".join(f"{key}={value}" for key, value in arguments.items())
                yield f"{name} {words}".rstrip(), lambda e=entry, v=variant: e.make(v), name, False
    for name in BOARDS:
        board = load_board(name)
        target = board.target(board, board.resolve(Options()))
        if target.make is not None:
            yield f"shell {name}", target.make, target.module, True
    yield "bring-up core", lambda: BringUpCore(200_000_000), "bring_up_core", False
    for codec in (None, *CODECS):
        name = f"inline device {codec}"
        yield name, lambda c=codec: InlinePins(InlineDevice(codec=c)), "inline_device", True


def emit(folder: Path, only: str, everything: bool) -> None:
    """Write each circuit's RTLIL to ``folder``."""
    from inceptionn.hdl.verilog import to_rtlil

    # The word of an older BASE.
    option = "has_clocks" if "has_clocks" in signature(to_rtlil).parameters else "own_clocks"
    for name, factory, module, has_clocks in circuits(everything):
        if re.search(only, name):
            text = to_rtlil(factory(), module, **{option: has_clocks})
            (folder / f"{name}.il").write_text(text)


def emit_commit(commit: str, checkout: Path, folder: Path, options: list[str]) -> None:
    """Write the circuits of ``commit``, read from a copy of its tree, to ``folder``."""
    archive = subprocess.run(["git", "archive", commit], cwd=ROOT, check=True, capture_output=True)
    subprocess.run(["tar", "-x", "-C", checkout], input=archive.stdout, check=True)
    # The package's folders are joined here as an installation would join them.
    for package in PACKAGES:
        (checkout / "sw" / package).symlink_to(checkout / package)
    (checkout / "import").mkdir()
    (checkout / "import" / "inceptionn").symlink_to(checkout / "sw")
    script = (
        f"import sys; sys.path[:0] = {[str(checkout / 'import'), str(Path(__file__).parent)]!r}; "
        f"import same_rtl; same_rtl.main({['--emit', str(folder), *options]!r})"
    )
    subprocess.run([sys.executable, "-c", script], check=True, cwd=checkout)


def top_ports(text: str) -> dict[str, str]:
    """Name of each port of the top module, to its declaration."""
    (top,) = re.findall(r"^module \\[^\s.]+$.*?^end$", text, re.MULTILINE | re.DOTALL)
    found = re.findall(r"^  wire (.*(?:input|output)) \d+ +(\\\S+)$", top, re.MULTILINE)
    return {name: declaration for declaration, name in found}


def anonymous(text: str) -> str:
    """RTLIL with all names but those of the top module's ports numbered in order of appearance."""
    numbers: dict[str, str] = {}
    ports = top_ports(text)

    def number(match: re.Match[str]) -> str:
        name, start = match[0], match.start()
        if name in ports or (name[0] == "$" and text[start - 5 : start] == "cell "):
            return name
        return numbers.setdefault(name, f"\\n{len(numbers)}")

    return re.sub(r"(?:\\|\$)[^\s\]]+", number, text)


def yosys_netlist(text: str, work: Path) -> dict[str, Any]:
    """Return the flattened netlist of an RTLIL text: the only module of Yosys's JSON that is left."""
    from inceptionn.hdl.yosys import yosys_path

    # Relative names in the current folder: Yosys as WebAssembly has a /tmp of its own.
    (work / "circuit.il").write_text(text)
    # Registers and multiplexers bit by bit: how many bits a cell joins depends on how signals are packed.
    steps = "read_rtlil circuit.il; hierarchy -auto-top; proc; flatten; opt_clean -purge; memory_collect"
    bits = "simplemap t:$*ff* t:$mux; opt_clean -purge"
    # One run for each register that a constant passes through.
    constants = "; ".join(["opt_dff -nodffe -nosdff; opt_clean -purge"] * 4)
    command = [yosys_path(), "-q", "-p", f"{steps}; {bits}; {constants}; write_json circuit.json"]
    subprocess.run(command, cwd=work, check=True, timeout=1800)
    modules = json.loads((work / "circuit.json").read_text())["modules"].values()
    tops = [module for module in modules if "top" in module["attributes"]]
    return dict(tops[0])


def operands(cell: dict[str, Any]) -> tuple[dict[str, str], dict[str, list[Any]]]:
    """Return a cell's parameters and connections, without leading zeros of unsigned numbers.

    Amaranth leaves these out where an operand is a whole signal, but not where it is a field of one.
    """
    parameters = {key: value for key, value in cell["parameters"].items() if key != "MEMID"}
    connections = dict(cell["connections"])
    signs = [parameters.get(f"{port}_SIGNED", "0") for port in "AB"]
    if cell["type"] in _ARITHMETIC and not any("1" in sign for sign in signs):
        for port in "AB":
            bits = list(connections.get(port, []))
            while len(bits) > 1 and bits[-1] == "0":
                bits.pop()
            if port in connections:
                connections[port] = bits
                del parameters[f"{port}_WIDTH"]
    return parameters, connections


def labels(netlist: dict[str, Any]) -> Counter[int]:
    """How often each label occurs among the netlist's registers, memories, gates (once) and output ports."""
    source: dict[int, tuple[Any, ...]] = {}
    initial: dict[int, str] = {}
    for name, port in netlist["ports"].items():
        if port["direction"] == "input":
            source |= {bit: ("port", name, i) for i, bit in enumerate(port["bits"]) if isinstance(bit, int)}
    for wire in netlist["netnames"].values():
        # A net of several names has its initial value at one of them, and "x" at the others.
        for bit, value in zip(wire["bits"], reversed(wire["attributes"].get("init", "")), strict=False):
            if value != "x":
                initial[bit] = value
    cells = []
    gates = set()
    for number, cell in enumerate(netlist["cells"].values()):
        if cell["type"] == "$scopeinfo":
            continue
        parameters, connections = operands(cell)
        inputs = []
        for port, bits in sorted(connections.items()):
            if cell.get("port_directions", {}).get(port) == "output":
                source |= {bit: ("cell", number, port, i) for i, bit in enumerate(bits)}
            else:
                inputs.append((port, bits))
        cells.append((number, hash((cell["type"], tuple(sorted(parameters.items())))), inputs))
        if _GATE.match(cell["type"]):
            gates.add(number)

    label = {number: kind for number, kind, _ in cells}

    def of_bit(bit: Any) -> int:
        found = source.get(bit)
        start = initial.get(bit, "")
        if found is None:
            return hash(("constant", bit if isinstance(bit, str) else "undriven"))
        return hash((label[found[1]], found[2:], start) if found[0] == "cell" else found)

    classes = 0
    while len(set(label.values())) > classes:
        classes = len(set(label.values()))
        label = {
            number: hash((kind, tuple((port, tuple(map(of_bit, bits))) for port, bits in inputs)))
            for number, kind, inputs in cells
        }
    outputs = [
        hash((name, tuple(map(of_bit, port["bits"]))))
        for name, port in netlist["ports"].items()
        if port["direction"] == "output"
    ]
    return Counter(
        [*(label[number] for number in label.keys() - gates), *{label[gate] for gate in gates}, *outputs]
    )


def compare(before: Path | None, after: Path | None, work: Path) -> str:
    """Return the verdict on two RTLIL files, named for their circuits."""
    if before is None:
        return "new"
    if after is None:
        return "only in BASE"
    old, new = before.read_text(), after.read_text()
    if old == new:
        return "same"
    if anonymous(old) == anonymous(new):
        return "renamed"
    if top_ports(old) != top_ports(new):
        return "DIFFERENT" if _EMITTED.match(before.stem) else "new ports"
    counts, new_counts = labels(yosys_netlist(old, work)), labels(yosys_netlist(new, work))
    if counts == new_counts:
        return "equal netlist"
    fewer = counts.keys() == new_counts.keys() and new_counts < counts
    return "fewer copies" if fewer else "DIFFERENT"


def main(argv: Iterable[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Compare the hardware of a commit with the working tree's.")
    parser.add_argument("base", nargs="?", default="HEAD", help="commit to compare with (default: HEAD)")
    parser.add_argument("--head", metavar="COMMIT", help="commit in place of the working tree")
    parser.add_argument("--only", default="", metavar="REGEX", help="only circuits whose name matches")
    parser.add_argument("--all", action="store_true", help="the NIC with four engines, too: minutes more")
    parser.add_argument("--emit", type=Path, metavar="DIR", help="only write the RTLIL of this tree")
    arguments = parser.parse_args(None if argv is None else list(argv))
    if arguments.emit:
        emit(arguments.emit, arguments.only, arguments.all)
        return 0
    options = ["--only", arguments.only, *(["--all"] if arguments.all else [])]
    with tempfile.TemporaryDirectory(prefix="same-rtl-") as scratch:
        folders = {name: Path(scratch) / name for name in ("base", "head", "before", "after")}
        for folder in folders.values():
            folder.mkdir()
        emit_commit(arguments.base, folders["base"], folders["before"], options)
        if arguments.head:
            emit_commit(arguments.head, folders["head"], folders["after"], options)
        else:
            emit(folders["after"], arguments.only, arguments.all)
        found = {side: {path.stem: path for path in folders[side].iterdir()} for side in ("before", "after")}
        verdicts = Counter()
        for name in sorted({*found["before"], *found["after"]}):
            verdict = compare(found["before"].get(name), found["after"].get(name), Path(scratch))
            verdicts[verdict] += 1
            if verdict != "same":
                print(f"{verdict:14} {name}", flush=True)
    print(", ".join(f"{count} {verdict}" for verdict, count in verdicts.items()))
    return 1 if verdicts["DIFFERENT"] or verdicts["only in BASE"] or not verdicts else 0


if __name__ == "__main__":
    raise SystemExit(main())
