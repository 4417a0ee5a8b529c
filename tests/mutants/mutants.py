# SPDX-License-Identifier: BSD-2-Clause
"""Scores the benches by mutants of the RTL: ``python tests/mutants/mutants.py [COMPONENT ...]``.

Yosys changes single bits of a component (``mutate``: inverted, stuck, or inverted if another bit of the same
cell is 0 or 1), each change under the number that a plusarg selects. So one Verilator model holds all mutants
of a component, and the project's own cocotb bench runs on it unchanged, to its first failure.

- *Killed*: a test of the bench fails, or the simulation takes more than ten times the processor time that it
  takes without a mutant.
- *Equivalent*: an induction proves that no output ever differs (`equivalent.py`), or `reasons.py` says why.
- *Survivor*: neither. The list names the line of the RTL.

The score is killed / (all - equivalent). Results stay in ``build/mutants``, so a command that is run again
goes on where it was ended. A survivor is run again if a bench has changed since; a mutant once killed is not.
Clocks are not mutated. A part that lies in several components is mutated, and judged, in each.
"""

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from equivalent import equivalent, yosys
from in_simulation import plan
from reasons import REASONS

from inceptionn.hdl.catalogue import CATALOGUE, Entry
from inceptionn.hdl.verilog import to_rtlil
from inceptionn.sim.runner import BenchFailure, run_bench
from inceptionn.system import atomic_file
from inceptionn.system.programs import usable_processors

ROOT = Path(__file__).parents[2]
BENCHES = ROOT / "tests" / "hdl"
RECORDS = {True: ROOT / "docs" / "assurance-mutants.json", False: ROOT / "docs" / "assurance-held-out.json"}
"""Where results of the fitted sample are kept, and of others."""
BUILD = Path(os.environ.get("INCEPTIONN_BUILD", "build")).resolve() / "mutants"
FIXED = ("tag_plane", "header_walk", "payload_merge")
"""What ``--touched`` takes if no component has changed."""
OWN = {"nic"}
"""Components of which nothing inside their parts is changed, since each part is judged by itself."""
FITTED = 1
"""Seed of the sample that benches were extended on."""


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
    """The test that failed, or ``time``; the reason why it is equivalent, if no proof was found."""
    bench: str = ""
    """Hash of the bench that ran."""


def bench_of(entry: Entry) -> tuple[Path, str]:
    """Return the component's bench, and the hash of it and of what benches share."""
    (bench,) = BENCHES.rglob(f"bench_{entry.bench}.py")
    shared = sorted((BENCHES / "support").glob("*.py"))
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
    return failed[1] if failed else "" if "<testcase" in text else "time"


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
    reasons = REASONS.get(folder.name.rsplit("-", 2)[0], {})
    for one in mutants:
        if one.verdict in ("survived", "open") and one.bench != bench:
            (folder / f"{one.number}.xml").unlink(missing_ok=True)
    todo = [one.number for one in mutants if not (folder / f"{one.number}.xml").exists()]
    if todo and not simulated:
        simulate(name, folder / "mutants.v", todo, folder, arguments.jobs, arguments.seconds)
    if outcome(folder / "0.xml"):
        raise SystemExit(f"{name}: the bench fails without a mutant: {outcome(folder / '0.xml')}")
    ran = [one for one in mutants if (folder / f"{one.number}.xml").exists()]

    def judged(one: Mutant) -> Mutant:
        killed_by = outcome(folder / f"{one.number}.xml")
        verdict, why = "killed" if killed_by else one.verdict or "open", ""
        if verdict == "open" and proofs and one.change not in reasons:
            verdict = "equivalent" if equivalent(rtlil, one.command, name) else "survived"
        if verdict in ("survived", "open") and one.change in reasons:
            verdict, why = "equivalent", reasons[one.change]
        return replace(one, verdict=verdict, by=killed_by or why or one.by, bench=bench)

    with ThreadPoolExecutor(arguments.jobs) as pool:
        for one in pool.map(judged, ran):
            mutants[one.number - 1] = one
            keep(folder, mutants)
    return [mutants[one.number - 1] for one in ran]


def touched() -> list[str]:
    """Components whose own file has changed since the branch left main; `FIXED` if none has."""
    git = ["git", "-C", str(ROOT)]
    for base in ("origin/main", "main~1", "HEAD~1"):
        merge_base = [*git, "merge-base", "HEAD", base]
        found = subprocess.run(merge_base, capture_output=True, text=True, check=False)
        if found.returncode == 0:
            names = [*git, "diff", "--name-only", found.stdout.strip(), "--", "hdl"]
            changed = set(subprocess.run(names, capture_output=True, text=True, check=True).stdout.split())
            chosen = [
                entry.name
                for entry in CATALOGUE.values()
                if entry.bench and f"hdl/{entry.path.partition(':')[0].replace('.', '/')}.py" in changed
            ]
            if chosen:
                return chosen[:3]
    return list(FIXED)


def summary(name: str, seed: int, mutants: list[Mutant]) -> dict[str, Any]:
    """Return what the record keeps of a component; ``drawn`` tells its sample from others."""
    killed, proved = (sum(one.verdict == verdict for one in mutants) for verdict in ("killed", "equivalent"))
    left = [
        {"change": one.change, "source": one.source} for one in mutants if one.verdict in ("survived", "open")
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
        "commit": commit(),
    }  # fmt: skip


def line_of(row: dict[str, Any]) -> str:
    """Return a component's line of the table."""
    real = row["mutants"] - row["equivalent"]
    score = f"{100 * row['killed'] / real:.1f} %" if real else "-"
    return f"{row['name']:32}{row['mutants']:8}{row['killed']:8}{row['equivalent']:12}{score:>10}"


def commit() -> str:
    """Return the last commit that changed the RTL."""
    log = ["git", "-C", str(ROOT), "log", "-1", "--format=%h", "--abbrev=8", "--", "hdl"]
    return subprocess.run(log, capture_output=True, text=True, check=False).stdout.strip()


def record(row: dict[str, Any]) -> None:
    """Put a component into its file of docs/ in place of older results.

    A sample that benches were not extended on keeps how many were killed at first.
    """
    path = RECORDS[row["seed"] == FITTED]
    known = {one["name"]: one for one in (json.loads(path.read_text()) if path.exists() else [])}
    before = known.get(row["name"], {})
    if row["seed"] != FITTED:
        row["first"] = before["first"] if before.get("drawn") == row["drawn"] else row["killed"]
    known[row["name"]] = row
    kept = [known[name] for name in CATALOGUE if name in known]
    atomic_file.write(path, json.dumps(kept, indent=1) + "\n")


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
    parser.add_argument("--record", action="store_true", help="put the results into docs/assurance-*.json")
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
    if arguments.seconds < 0 or (arguments.seconds and arguments.record):
        parser.error(f"--seconds must be 0 or more, and 0 for a record, not {arguments.seconds}")
    later = not arguments.no_proofs and not arguments.record and arguments.at_least > 0
    high = score(names, count, arguments, not (arguments.no_proofs or later)) >= arguments.at_least
    if later and not high:
        high = score(names, count, arguments, True, simulated=True) >= arguments.at_least
    return int(not high)


def score(
    names: list[str], count: int, arguments: argparse.Namespace, proofs: bool, simulated: bool = False
) -> float:
    """Judge and print these components; return their score in percent, 0 if no mutant has ended."""
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
    left = numbers["mutants"] - numbers["equivalent"]
    return 100 * numbers["killed"] / left if left else 100.0 * bool(rows and numbers["mutants"])


if __name__ == "__main__":
    sys.exit(main())
