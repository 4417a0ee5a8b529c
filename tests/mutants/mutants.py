# SPDX-License-Identifier: BSD-2-Clause
"""Scores the benches by mutants of the RTL: ``python tests/mutants/mutants.py [COMPONENT ...]``.

Yosys changes single bits of a component (``mutate``: inverted, stuck, or inverted if another bit of the same
cell is 0 or 1), each change under the number that a plusarg selects. So one Verilator model holds all mutants
of a component, and the project's own cocotb bench runs on it unchanged, to its first failure.

- *Killed*: a test of the bench fails, or the simulation takes more than three times the processor time that
  it takes without a mutant.
- *Equivalent*: an induction proves that no output ever differs (`equivalent.py`), or the record of this very
  circuit says why no legal input shows it. Write such a reason into docs/assurance-mutants.json: move the
  survivor to ``reasons`` and give it a ``reason``; it lapses when the circuit changes.
- *Survivor*: neither. The list names the line of the RTL.

The score is killed / (all - equivalent). Results stay in ``build/mutants``, so a command that is run again
goes on where it was ended. If a bench has changed since, its mutants run again, those that were killed too.
Clocks are not mutated. A part that lies in several components is mutated, and judged, in each.
"""

import argparse
import hashlib
import json
import os
import re
import shutil
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from equivalent import equivalent, yosys
from in_simulation import plan

from inceptionn.hdl.catalogue import CATALOGUE, Entry
from inceptionn.hdl.verilog import to_rtlil
from inceptionn.hdl.yosys import YosysMissing
from inceptionn.sim.runner import BenchFailure, run_bench
from inceptionn.system import atomic_file
from inceptionn.system.programs import usable_processors

ROOT = Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "tests" / name) for name in ("prove", "support")]
import change  # noqa: E402
import records  # noqa: E402

BENCHES = ROOT / "tests" / "hdl"
BUILD = Path(os.environ.get("INCEPTIONN_BUILD", ROOT / "build")).resolve() / "mutants"
FIXED = ("checksum", "header_sum", "receive_assembler")
"""What ``--touched`` takes if no component has changed."""
FEWEST = 5
"""Mutants that must have run, for ``--at-least``."""
OWN = {"nic"}
"""Components of which nothing inside their parts is changed, since each part is judged by itself."""


@dataclass(frozen=True)
class Mutant:
    """One change of a component, and what became of it."""

    number: int
    change: str
    """``mode cell.port[bit]`` of Yosys."""
    source: str
    """File and line of the RTL."""
    command: str
    """Yosys's command, to make it again."""
    verdict: str = ""
    """``killed``, ``equivalent``, ``survived``; ``open``: it survived, no proof was tried; empty: not run."""
    by: str = ""
    """The test that failed, or ``time``; why it is equivalent, if no proof was found, or why it survives."""
    bench: str = ""
    """Hash of the bench that ran."""


def bench_of(entry: Entry) -> tuple[Path, str]:
    """Return the component's bench, and the hash of it and of what benches share."""
    (bench,) = BENCHES.rglob(f"bench_{entry.bench}.py")
    beside = [*(BENCHES / "support").glob("*.py"), *bench.parent.glob("*.py")]
    shared = sorted(path for path in beside if not path.name.startswith(("bench_", "test_")))
    text = "".join(path.read_text() for path in [bench, *shared])
    return bench, hashlib.sha256(text.encode()).hexdigest()[:12]


def lowered(entry: Entry) -> str:
    """RTLIL of the component without processes, optimised so that few changes are without effect."""
    text = to_rtlil(entry.make(), entry.name, lines=True)
    text = text.replace(f'"{ROOT}{os.sep}', '"')
    read = f"read_rtlil <<rtlil\n{text}\nrtlil"
    passes = "opt -full; wreduce; opt_clean; memory_collect; pmuxtree"
    try:
        return yosys(read, f"proc; {passes}; opt_clean", "write_rtlil")
    except RuntimeError:
        # Yosys refuses a register of which a bit is constant, unless what is unused has gone before.
        return yosys(read, f"proc; opt_clean; {passes}; opt_clean", "write_rtlil")


def choose(rtlil: str, count: int, seed: int, module: str = "") -> list[Mutant]:
    """Draw a sample of mutants, spread over modules, cells, wires and lines as Yosys does.

    ``module``: of this one alone.
    """
    read, draw = f"read_rtlil <<rtlil\n{rtlil}\nrtlil", f"mutate -list {3 * count} -seed {seed} {module}"
    listed = yosys(read, draw, options="-QT")
    mutants: list[Mutant] = []
    for line in re.findall(r"^mutate .*$", listed, re.MULTILINE):
        given = dict(re.findall(r"-(mode|module|cell|port|portbit) (\S+)", line))
        sources = [one for one in re.findall(r"-src (\S+)", line) if one.startswith("hdl/")]
        port = given["port"].lstrip("\\")
        wrapper = "." not in given["module"]  # it has the clock, and registers the reset
        if wrapper or re.search(r"(?i)clk", port) or not sources or len(mutants) == count:
            continue
        change = f"{given['mode']} {given['cell'].lstrip(chr(92))}.{port}[{given['portbit']}]"
        mutants.append(Mutant(len(mutants) + 1, change, sources[-1], line))
    return mutants


def with_mutants(rtlil: str, mutants: list[Mutant], top: str) -> str:
    """Verilog with all mutants; the variable ``mutant`` of the top selects one, 0 none."""
    applied = [f"{one.command} -ctrl mutant 16 {one.number}" for one in mutants]
    ending = ("attrmap -remove src -remove generator", "write_verilog -norename")
    verilog = yosys(f"read_rtlil <<rtlil\n{rtlil}\nrtlil", *applied, *ending)
    head, body = re.split(rf"(?=^module {top}\()", verilog, maxsplit=1, flags=re.MULTILINE)
    body = body.replace(", mutant);", ");", 1)
    port = r"input \[15:0\] mutant;\n  wire \[15:0\] mutant;\n"
    body, found = re.subn(port, "reg [15:0] mutant;\n", body, count=1)
    if found != 1:
        raise RuntimeError(f"{top} must have a port mutant")
    return head + body


def simulate(name: str, verilog: Path, numbers: list[int], folder: Path, jobs: int, seconds: int) -> None:
    """Run the component's bench on the design without a mutant, number 0, and on each of these mutants."""
    environment = plan(folder, numbers, jobs, seconds)
    before = dict(os.environ)
    os.environ |= environment
    sys.path.insert(0, str(Path(__file__).parent))  # which the simulation inherits
    try:
        entry = CATALOGUE[name]
        run_bench(verilog, name, bench_of(entry)[0], parameters=entry.parameters())
    except BenchFailure as ended:  # always: the outcomes lie elsewhere
        shutil.rmtree(Path(ended.summary.partition("; log: ")[2]).parent)
    finally:
        sys.path.pop(0)
        os.environ.clear()
        os.environ.update(before)


def outcome(path: Path) -> str:
    """Return what killed a mutant: the test that failed, ``time``, or an empty text if all passed."""
    text = path.read_text()
    failed = re.search(r'<testcase [^>]*name="([^"]*)"[^>]*>\s*<(?:failure|error)', text)
    return failed[1] if failed else "" if "<testcase" in text else text


# The command


def prepare(name: str, count: int, seed: int) -> tuple[list[Mutant], str, Path]:
    """Return the component's mutants with what is known of them, its RTLIL, and a folder.

    The folder holds its Verilog with all of the mutants.
    """
    rtlil = lowered(CATALOGUE[name])
    circuit = re.sub(r"^ *attribute \\src .*\n", "", rtlil, flags=re.MULTILINE)
    key = hashlib.sha256(circuit.encode()).hexdigest()[:12]
    folder = BUILD / f"{name}-{key}-{count}-{seed}"
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "mutants.json").exists():
        mutants = choose(rtlil, count, seed, f"{name}.core" if name in OWN else "")
        if not mutants:
            raise SystemExit(f"{name}: Yosys finds nothing to change")
        atomic_file.write(folder / "mutants.v", with_mutants(rtlil, mutants, name))
        keep(folder, mutants)
    return [Mutant(**one) for one in json.loads((folder / "mutants.json").read_text())], rtlil, folder


def keep(folder: Path, mutants: list[Mutant]) -> None:
    """Write what is known of a component's mutants."""
    atomic_file.write(folder / "mutants.json", json.dumps([asdict(one) for one in mutants], indent=1) + "\n")


def run(name: str, count: int, arguments: argparse.Namespace, proofs: bool, simulated: bool) -> list[Mutant]:
    """Mutants of a component with their verdicts; without proofs, what survives stays ``open``.

    All of them, or those that began to run within ``arguments.seconds``, or that are ``simulated`` already.
    """
    mutants, rtlil, folder = prepare(name, count, arguments.seed)
    bench = bench_of(CATALOGUE[name])[1]
    reasons, why_not = (reasons_of(name, mutants, arguments.seed, kind) for kind in ("reasons", "survivors"))
    for number, one in enumerate(mutants):
        if one.bench != bench:
            (folder / f"{one.number}.xml").unlink(missing_ok=True)
            mutants[number] = replace(one, verdict="", by="", bench="")
    todo = [one.number for one in mutants if not (folder / f"{one.number}.xml").exists()]
    if todo and not simulated:
        simulate(name, folder / "mutants.v", todo, folder, arguments.jobs, arguments.seconds)
    if not (folder / "0.xml").exists():
        raise SystemExit(f"{name}: the simulation without a mutant was killed from outside")
    if outcome(folder / "0.xml"):
        raise SystemExit(f"{name}: the bench fails without a mutant: {outcome(folder / '0.xml')}")
    ran = [one for one in mutants if (folder / f"{one.number}.xml").exists()]

    def judged(one: Mutant) -> Mutant:
        killed_by = outcome(folder / f"{one.number}.xml")
        if killed_by:
            return replace(one, verdict="killed", by=killed_by, bench=bench)
        if one.change in reasons:
            return replace(one, verdict="equivalent", by=reasons[one.change], bench=bench)
        verdict = "open" if one.by or not one.verdict else one.verdict  # a reason may have been taken back
        if verdict == "open" and proofs and one.change not in why_not:
            verdict = "equivalent" if equivalent(rtlil, one.command, name) else "survived"
        return replace(one, verdict=verdict, by=why_not.get(one.change, ""), bench=bench)

    with ThreadPoolExecutor(arguments.jobs) as pool:
        for one in pool.map(judged, ran):
            mutants[one.number - 1] = one
            keep(folder, mutants)
    return [mutants[one.number - 1] for one in ran]


def reasons_of(name: str, mutants: list[Mutant], seed: int, kind: str) -> dict[str, str]:
    """Return the recorded reasons that are about today's circuit, by change.

    ``kind``: ``reasons`` why mutants are equivalent, or ``survivors`` and why no bench sees them. A reason of
    the same sample must be about one of the mutants.
    """
    found = {}
    for row in records.load("mutants"):
        if row["name"] == name and row["circuit"] == records.circuit(name):
            there = {one["change"]: one["reason"] for one in row[kind] if "reason" in one}
            lost = there.keys() - {one.change for one in mutants}
            if lost and (row["seed"], row["mutants"]) == (seed, len(mutants)):
                raise SystemExit(f"{name} has a reason where no mutant is: {', '.join(sorted(lost))}")
            found |= there
    return found


def parts(module: ModuleType, found: dict[str, int], steps: int = 0) -> dict[str, int]:
    """Files that an RTL module is made of: ``hdl/...``, and by how many imports it comes to each."""
    path = f"hdl/{module.__name__.removeprefix('inceptionn.hdl.').replace('.', '/')}.py"
    if found.get(path, steps + 1) > steps:
        found[path] = steps
        for name in {getattr(value, "__module__", None) for value in vars(module).values()}:
            if str(name).startswith("inceptionn.hdl.") and name != module.__name__:
                parts(sys.modules[name], found, steps + 1)
    return found


def touched() -> list[str]:
    """Three components that the change reaches, the nearest to it first; `FIXED` if it reaches none."""
    steps = dict(distances(change.changed() or set()))
    chosen = sorted(steps, key=steps.__getitem__)
    if chosen[3:]:
        print(f"changed too, and not judged here: {', '.join(chosen[3:])}")
    return chosen[:3] or list(FIXED)


def distances(changed: set[str]) -> Iterator[tuple[str, int]]:
    """Components with a bench that consist of any of these files, and by how many imports."""
    for entry in CATALOGUE.values():
        if entry.bench:
            made_of = parts(import_module(f"inceptionn.hdl.{entry.path.partition(':')[0]}"), {})
            if near := changed & made_of.keys():
                yield entry.name, min(made_of[path] for path in near)


def summary(name: str, seed: int, mutants: list[Mutant]) -> dict[str, Any]:
    """Return what the record keeps of a component; ``drawn`` tells its sample from others."""
    killed, proved = (sum(one.verdict == verdict for one in mutants) for verdict in ("killed", "equivalent"))
    left = [
        {"change": one.change, "source": one.source} | ({"reason": one.by} if one.by else {})
        for one in mutants
        if one.verdict in ("survived", "open")
    ]
    reasons = [
        {"change": one.change, "source": one.source, "reason": one.by}
        for one in mutants
        if one.verdict == "equivalent" and one.by
    ]
    numbers = {"mutants": len(mutants), "killed": killed, "equivalent": proved}
    drawn = hashlib.sha256("".join(one.change for one in mutants).encode()).hexdigest()[:12]
    return {
        "name": name, **numbers, "survivors": left, "reasons": reasons, "seed": seed, "drawn": drawn,
        "circuit": records.circuit(name), "commit": records.commit(),
    }  # fmt: skip


def line_of(row: dict[str, Any]) -> str:
    """Return a component's line of the table."""
    real = row["mutants"] - row["equivalent"]
    score = f"{100 * row['killed'] / real:.1f} %" if real else "-"
    return f"{row['name']:32}{row['mutants']:8}{row['killed']:8}{row['equivalent']:12}{score:>10}"


def record(row: dict[str, Any]) -> None:
    """Put a component into docs/assurance-mutants.json in place of older results.

    A sample that benches were not extended on keeps how many were killed at first.
    """
    if row["seed"] != records.FITTED:
        first = {one["drawn"]: one["first"] for one in of_sample([row["name"]], row["seed"])}
        row["first"] = first.get(row["drawn"], row["killed"])
    records.put("mutants", [row], CATALOGUE)


def of_sample(names: list[str], seed: int) -> records.Rows:
    """Return what is recorded of these components: of the fitted sample, or of another one."""
    known = (row for row in records.load("mutants") if row["name"] in names)
    return [row for row in known if (row["seed"] == records.FITTED) == (seed == records.FITTED)]


def loses(names: list[str], count: int, seed: int) -> str:
    """Say which record a run with ``--record`` would replace by one of fewer mutants, or of another seed."""
    for row in of_sample(names, seed):
        if row["seed"] != seed or row["mutants"] > count:
            kept = f"{row['mutants']} mutants of seed {row['seed']}"
            return f"{row['name']} has a record of {kept}; --force replaces it"
    return ""


def main() -> int:
    style = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=style)
    parser.add_argument("components", nargs="*", help="names of the catalogue (all with a bench)")
    parser.add_argument("--count", type=int, default=40, help="mutants of each component (40)")
    parser.add_argument("--seed", type=int, default=1, help="of the sample (1)")
    parser.add_argument("--jobs", type=int, default=usable_processors(), help="processes at a time")
    parser.add_argument("--touched", action="store_true", help="60 mutants of what has changed")
    parser.add_argument(
        "--seconds", type=int, default=0, help="after which no other mutant of a component begins (never)"
    )
    parser.add_argument(
        "--no-proofs", action="store_true", help="leave what survives for a later run to prove"
    )
    parser.add_argument("--record", action="store_true", help="put the results into docs/assurance*")
    parser.add_argument("--force", action="store_true", help="record fewer mutants than before, or others")
    parser.add_argument(
        "--at-least",
        type=float,
        default=0,
        help="fail below this score in percent (0); what survives is proved only where that decides",
    )
    arguments = parser.parse_args()
    judged = [entry.name for entry in CATALOGUE.values() if entry.bench]
    names = touched() if arguments.touched else arguments.components or judged
    if unknown := sorted(set(names) - set(judged)):
        parser.error(f"{unknown[0]} must be a component with a bench: {', '.join(judged)}")
    count = 60 // len(names) if arguments.touched else arguments.count
    if not 1 <= count < 2**16:
        parser.error(f"--count must be from 1 to 65535, not {count}")
    if arguments.jobs < 1:
        parser.error(f"--jobs must be at least 1, not {arguments.jobs}")
    if arguments.touched and arguments.components:
        parser.error(f"--touched chooses the components; leave out {arguments.components[0]}")
    if arguments.seconds < 0 or (arguments.seconds and arguments.record):
        parser.error(f"--seconds must be 0 or more, and 0 for a record, not {arguments.seconds}")
    if arguments.record and not arguments.force and (lost := loses(names, count, arguments.seed)):
        parser.error(lost)
    later = not arguments.no_proofs and not arguments.record and arguments.at_least > 0
    high = score(names, count, arguments, not (arguments.no_proofs or later)) >= arguments.at_least
    if later and not high:
        high = score(names, count, arguments, True, simulated=True) >= arguments.at_least
    if arguments.record:
        records.write_page()
    return int(not high)


def score(
    names: list[str], count: int, arguments: argparse.Namespace, proofs: bool, simulated: bool = False
) -> float:
    """Judge and print these components; return their score in percent, 0 if too few mutants ran."""
    print(f"{'component':32}{'mutants':>8}{'killed':>8}{'equivalent':>12}{'score':>10}")
    rows = []
    for name in names:
        mutants = run(name, count, arguments, proofs, simulated)
        rows.append(summary(name, arguments.seed, mutants))
        print(line_of(rows[-1]), flush=True)
        for one in rows[-1]["survivors"]:
            word = "survived" if proofs else "not killed, no proof tried"
            print(f"    {word}: {one['change']} at {one['source']}", flush=True)
        if arguments.record:
            record(rows[-1])
    numbers = {key: sum(row[key] for row in rows) for key in ("mutants", "killed", "equivalent")}
    print(line_of({"name": "all", **numbers}))
    if numbers["mutants"] < min(FEWEST, count):
        print(f"{numbers['mutants']} mutants ran, too few for a score")
        return 0.0
    left = numbers["mutants"] - numbers["equivalent"]
    return 100 * numbers["killed"] / left if left else 100.0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except YosysMissing as missing:
        sys.exit(str(missing))
    except KeyboardInterrupt:
        sys.exit("interrupted; the same command goes on from here")
