# SPDX-License-Identifier: BSD-2-Clause
"""Scores the tests of the host library by mutants: ``python tests/mutants/software.py [GROUP ...]``.

A mutant is one changed operator, number or statement of a file, chosen at random. Those of the group's
tests that reach its line run on it, the quickest first, to the first failure (`reaching.py`); all that
reach the file where none reaches the line, as with what runs at import, and all where the file is C. Slow
tests are left out. Nothing in the working tree changes: a Python module is replaced while it is imported
(`sitecustomize` on ``$PYTHONPATH``), a C file is compiled into another module. A mutant that survives is a
missing test, or changes nothing that can be seen; ``reasons`` of docs/assurance-software.json says why, by
file below ``sw`` and place. Results stay in ``build/mutants`` while the group's tests do not change, so a run
that was ended goes on; ``--again`` judges survivors again. Files of MPI are left out, since their tests start
``mpirun``.
"""

import argparse
import ast
import hashlib
import json
import os
import random
import re
import shlex
import signal
import subprocess
import sys
import sysconfig
import time
import tomllib
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from inceptionn.system import atomic_file

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "prove"))
import records  # noqa: E402

BUILD = Path(os.environ.get("INCEPTIONN_BUILD", ROOT / "build")).resolve() / "mutants" / "software"
GROUPS = {
    "codec": (
        "sw/native",
        [f"tests/codec/test_{name}.py" for name in ("paths", "sums", "message", "halves", "arguments")],
    ),
    "collectives": (
        "sw/collectives",
        ["tests/collectives", "-k", "not mpi and not sub_blocks and (promise or missing or not own_codec)"],
    ),
    "transport": ("sw/transport", ["tests/transport", "-k", "not test_processes and not across_hosts"]),
}
"""Folder of the sources, and the tests that cover them, in arguments of pytest."""
BESIDES = {"communicator.py": ["tests/collectives/test_mpi.py::test_under_mpirun[raw-2]"]}
"""Tests that start processes, by the file whose mutants they judge when all others have passed."""
SWAPS = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.Add: ast.Sub,
    ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult, ast.Mod: ast.Add,
    ast.LShift: ast.RShift, ast.RShift: ast.LShift, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
    ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip
C_SWAPS = {
    "<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "+": "-", "-": "+", "*": "+",
    "<<": ">>", ">>": "<<", "&": "|", "|": "&", "&&": "||", "||": "&&", "+=": "-=", "|=": "&=",
}  # fmt: skip
HANG_S = 40
"""What one test may take, in seconds; all tests of a mutant may take ten times that."""
HANGS = ("-o", f"faulthandler_timeout={HANG_S}", "-o", "faulthandler_exit_on_timeout=true")
TIME = -1000
"""In place of an exit status: the tests took too long."""
_CRASHES = (signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGABRT)
VERDICTS = {0: "survived", 1: "killed", 2: "killed", 4: "killed", TIME: "time"}
VERDICTS |= dict.fromkeys((-number for number in _CRASHES), "killed")
"""By the exit status of the tests: 1 where one fails, 2 and 4 where tests or their conftest.py cannot be
imported. Others judge nothing."""
CUSTOMIZE = """
import os, sys
from importlib.machinery import SourceFileLoader
from importlib.util import spec_from_file_location
NAME, FILE = os.environ["MUTANT_MODULE"], os.environ["MUTANT_FILE"]
class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name != NAME:
            return None
        if FILE.endswith(".so"):
            return spec_from_file_location(name, FILE)
        package = [os.environ["MUTANT_PACKAGE"]] if os.environ["MUTANT_PACKAGE"] else None
        return spec_from_file_location(
            name, FILE, loader=SourceFileLoader(name, FILE), submodule_search_locations=package)
sys.meta_path.insert(0, Finder)
"""


@dataclass(frozen=True)
class Mutant:
    """One change of a file."""

    file: Path
    line: int
    place: str
    """The function, class or constant, and the change; the second of its kind there ends with ``(2)``."""
    text: str
    """The whole file with the change."""

    @property
    def reason(self) -> str | None:
        """Why it changes nothing that can be seen, if it is known."""
        return reasons().get((str(self.file.relative_to(ROOT / "sw")), self.place))


def python_changes(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield line, place and new text of each change of a Python module; types and docstrings stay."""
    tree = ast.parse(text)
    owners: dict[ast.AST, str] = {tree: ""}
    kept = set[ast.AST]()
    for node in ast.walk(tree):
        for child in ast.iter_child_nodes(node):
            name = getattr(child, "name", None) if isinstance(child, ast.stmt) else None
            if isinstance(child, (ast.Assign, ast.AnnAssign)) and isinstance(
                node, (ast.Module, ast.ClassDef)
            ):
                name = ast.unparse(child.target if isinstance(child, ast.AnnAssign) else child.targets[0])
            owners[child] = ".".join(filter(None, (owners[node], name)))
        types = (getattr(node, key, None) for key in ("annotation", "returns"))
        kept.update(one for part in types if part for one in ast.walk(part) if isinstance(one, ast.BinOp))
    for node in [one for one in owners if one not in kept]:
        for holder, key, new, what in edits(node):
            old = holder[key]
            holder[key] = new
            yield (
                getattr(old, "lineno", None) or node.lineno,
                f"{owners[node] or 'module'}: {what}",
                ast.unparse(tree),
            )
            holder[key] = old


def edits(node: ast.AST) -> Iterator[tuple[Any, Any, Any, str]]:
    """Yield the changes of one node: where to put what, and how the change is called."""
    operators = [(vars(node), "op"), *((node.ops, at) for at in range(len(getattr(node, "ops", ()))))]
    for holder, key in operators:
        old = type(holder.get(key) if isinstance(holder, dict) else holder[key])
        if old in SWAPS:
            yield holder, key, SWAPS[old](), f"{old.__name__} -> {SWAPS[old].__name__}"
    if isinstance(node, ast.Constant) and type(node.value) in (int, bool):
        new = not node.value if type(node.value) is bool else node.value + 1
        yield vars(node), "value", new, f"{node.value} -> {new}"
    for field in ("body", "orelse", "finalbody"):
        block = getattr(node, field, None)
        for at, one in enumerate(block if isinstance(block, list) else ()):
            if isinstance(one, ast.Expr) and isinstance(one.value, ast.Call):
                what = f"{ast.unparse(one.value.func)}()"
            elif isinstance(one, (ast.AugAssign, ast.Raise, ast.Continue, ast.Break)):
                what = type(one).__name__
            else:
                continue
            yield block, at, ast.copy_location(ast.Pass(), one), f"without {what}"


def c_changes(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield the same of a C file: operators with spaces around them, and numbers, inside functions."""
    hidden = re.sub(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\n])*\"|^[ ]*#[^\n]*$|^\S[^\n]*$",
                    lambda m: re.sub(r"[^\n]", " ", m[0]), text, flags=re.DOTALL | re.MULTILINE)  # fmt: skip
    heads = list(re.finditer(r"^\w[^\n]*?(\w+)(?=\(|\[| =| \{)", text, re.MULTILINE))
    for match in re.finditer(r"(?<= )([-+*<>=!&|]{1,2})(?= )|\b(\d+)\b", hidden):
        old = match[0]
        new = C_SWAPS.get(old) if match[1] else str(int(old) + 1)
        if new:
            name = next((one[1] for one in reversed(heads) if one.start() < match.start()), "file")
            line = text.count("\n", 0, match.start()) + 1
            yield line, f"{name}: {old} -> {new}", text[: match.start()] + new + text[match.end() :]


def mutants(file: Path) -> list[Mutant]:
    """Return every mutant of a file."""
    found, alike = [], Counter[str]()
    changes = c_changes if file.suffix == ".c" else python_changes
    for line, place, text in changes(file.read_text()):
        alike[place] += 1
        found.append(Mutant(file, line, place + f" ({alike[place]})" * (alike[place] > 1), text))
    return found


def every_mutant(group: str) -> list[Mutant]:
    """Return the mutants of a group's files, but for those of MPI and of Approximate Data Transfer."""
    files = sorted((ROOT / GROUPS[group][0]).rglob("*.c" if group == "codec" else "*.py"))
    return [one for file in files if not file.name.startswith(("adt", "mpi")) for one in mutants(file)]


@cache
def reasons(*groups: str) -> dict[tuple[str, str], str]:
    """Return the recorded reasons of these groups (all), by file and place."""
    rows = (row for row in records.load("software") if not groups or row["name"] in groups)
    files = (pair for row in rows for pair in row["reasons"].items())
    return {(file, place): reason for file, places in files for place, reason in places.items()}


def lost_reasons(every: list[Mutant], group: str) -> list[str]:
    """Return the places of a group that have a reason, and no mutant."""
    there = {(str(one.file.relative_to(ROOT / "sw")), one.place) for one in every}
    return [f"{file}: {place}" for file, place in reasons(group) if (file, place) not in there]


def compiled(mutant: Mutant, folder: Path) -> Path | None:
    """Compile the codec's module with the mutant's text; return None if it does not compile."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    module = project["tool"]["setuptools"]["ext-modules"][0]
    include = (ROOT / "sw" / "native", sysconfig.get_paths()["include"])
    compiler = ["cc", "-fPIC", "-w", *module["extra-compile-args"], *(f"-I{path}" for path in include)]
    (folder / "mutant.c").write_text(mutant.text)
    objects = []
    for source in map(ROOT.joinpath, module["sources"]):
        target = BUILD / f"{hashlib.sha256(source.read_bytes()).hexdigest()[:12]}-{source.stem}.o"
        if source == mutant.file:
            target = folder / "mutant.o"
        if source == mutant.file or not target.exists():
            text = folder / "mutant.c" if source == mutant.file else source
            command = [*compiler, f"-I{source.parent}", "-c", text, "-o", target]
            if subprocess.run(command, check=source != mutant.file, capture_output=True).returncode:
                return None
        objects.append(target)
    library = folder / "mutant.so"
    linked = subprocess.run(["cc", "-shared", "-o", library, *objects, "-lpthread", "-lm"], check=False)
    return library if linked.returncode == 0 else None


def state_of(group: str) -> str:
    """Hash of the tests that cover a group, and of what all tests share."""
    folders = [ROOT / one for one in ("tests/support", *GROUPS[group][1]) if one.startswith("tests/")]
    files = sorted({file for one in folders for file in ([one] if one.is_file() else one.rglob("*.py"))})
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]


def pytest(limit_s: float, plugin: dict[str, str], *arguments: str) -> int:
    """Run tests with the plugin to the first failure; the exit status, or `TIME` after that time."""
    path = os.pathsep.join(filter(None, (plugin.get("PYTHONPATH"), str(Path(__file__).parent))))
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-p", "reaching"]
    quiet = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
    environment = os.environ | plugin | {"PYTHONPATH": path}
    with subprocess.Popen(
        [*command, "-m", "not slow", *arguments], cwd=ROOT, env=environment, start_new_session=True, **quiet
    ) as process:
        try:
            return process.wait(limit_s)
        except subprocess.TimeoutExpired:
            return TIME
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # what the tests started


def reaching(group: str, again: bool = False) -> tuple[list[str], dict[str, list[int]]]:
    """All tests of the group, the quickest first, and the numbers of those that reach ``file:line``.

    What an earlier run found is kept; ``again`` adds new tests.
    """
    source, tests = GROUPS[group]
    kept = BUILD / f"{group}-{state_of(group)}-tests.json"
    if again or not kept.exists():
        plugin = {"REACHED": str(kept), "REACHED_FOLDER": f"{ROOT / source}{os.sep}"}
        pytest(3600, plugin, "--maxfail=9", *tests)
        for name in json.loads(kept.read_text())["failed"]:
            print(f"{group}: left out, since it fails without a mutant: {name}", flush=True)
    found = json.loads(kept.read_text())
    return found["tests"], found["lines"]


def chosen_tests(group: str, mutant: Mutant) -> list[str]:
    """Return the tests to run on a mutant, the quickest first."""
    names, by_line = reaching(group)
    numbers = by_line.get(f"{mutant.file}:{mutant.line}")
    if numbers is None:
        file = f"{mutant.file}:"
        numbers = {one for place, some in by_line.items() if place.startswith(file) for one in some}
    return [names[number] for number in sorted(numbers)] or names


def verdict_of(mutant: Mutant, folder: Path, tests: list[str]) -> str:
    """``killed``, ``time``, ``survived``, ``no program``, or a status of pytest that judges nothing."""
    parts, package = mutant.file.relative_to(ROOT / "sw").with_suffix("").parts, ""
    if mutant.file.stem == "__init__":
        parts, package = parts[:-1], str(mutant.file.parent)
    target: Path | None = folder / "mutant.py"
    if mutant.file.suffix == ".c":
        target, parts = compiled(mutant, folder), ("native", "codec")
    else:
        target.write_text(mutant.text)
    if target is None:
        return "no program"
    (folder / "sitecustomize.py").write_text(CUSTOMIZE)
    (folder / "tests.json").write_text(json.dumps(tests))
    plugin = {
        "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1", "CHOSEN": str(folder / "tests.json"),
        "MUTANT_MODULE": ".".join(("inceptionn", *parts)), "MUTANT_FILE": str(target),
        "MUTANT_PACKAGE": package,
    }  # fmt: skip
    status = pytest(10 * HANG_S, plugin, *HANGS, *dict.fromkeys(one.partition("::")[0] for one in tests))
    return VERDICTS.get(status, f"status {status}")


def run(group: str, count: int, seed: int, budget_s: float, again: bool) -> dict[str, object]:
    """Judge a sample, as far as the time allows; what the record keeps."""
    BUILD.mkdir(parents=True, exist_ok=True)
    kept, folder = BUILD / f"{group}-{state_of(group)}.json", BUILD / f"{group}-work"
    known = json.loads(kept.read_text()) if kept.exists() else {}
    begun = time.monotonic()
    folder.mkdir(exist_ok=True)
    every = every_mutant(group)
    if lost := lost_reasons(every, group):
        raise SystemExit(f"{group} has a reason where no mutant is: {'; '.join(lost)}")
    reaching(group, again)
    ran, equivalent, survivors = 0, 0, []
    for mutant in random.Random(seed).sample(every, min(count, len(every))):
        source = f"{mutant.file.relative_to(ROOT)}:{mutant.line}"
        key = hashlib.sha256(mutant.text.encode()).hexdigest()[:16]
        judged = key in known and not (again and known[key] == "survived" and mutant.reason is None)
        if not judged and time.monotonic() - begun < budget_s:
            verdict = verdict_of(mutant, folder, chosen_tests(group, mutant))
            if verdict == "survived" and mutant.file.name in BESIDES:
                verdict = verdict_of(mutant, folder, BESIDES[mutant.file.name])
            print(f"{group}: {source} {mutant.place}: {verdict}", flush=True)
            if not verdict.startswith("status"):
                known[key] = verdict
                atomic_file.write(kept, json.dumps(known))
        ran += known.get(key, "no program") != "no program"
        if known.get(key) == "survived":
            equivalent += mutant.reason is not None
            survivors += [] if mutant.reason else [{"source": source, "change": mutant.place}]
    before = next(row for row in records.load("software") if row["name"] == group)
    return before | {
        "asked": count, "mutants": ran, "killed": ran - equivalent - len(survivors), "equivalent": equivalent,
        "seed": seed, "survivors": survivors, "commit": records.commit(GROUPS[group][0]),
    }  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("groups", nargs="*", help=f"{', '.join(GROUPS)} (all)")
    parser.add_argument("--count", type=int, default=100, help="mutants of each group (100)")
    parser.add_argument("--seed", type=int, default=1, help="of the sample (1)")
    parser.add_argument(
        "--seconds", type=float, default=1e9, help="begin no mutant of a group after this time"
    )
    parser.add_argument("--again", action="store_true", help="judge survivors without a reason again")
    parser.add_argument("--record", action="store_true", help="put the results into docs/assurance*")
    parser.add_argument("--force", action="store_true", help="record fewer mutants than before, or others")
    arguments = parser.parse_args()
    if unknown := sorted(set(arguments.groups) - set(GROUPS)):
        parser.error(f"{shlex.quote(unknown[0])} must be one of {', '.join(GROUPS)}")
    if arguments.count < 1 or not arguments.seconds > 0:
        parser.error(f"--count and --seconds must be above 0, not {arguments.count} and {arguments.seconds}")
    groups = arguments.groups or [*GROUPS]
    known = {row["name"]: row for row in records.load("software")}
    for group in groups:
        row = run(group, arguments.count, arguments.seed, arguments.seconds, arguments.again)
        print(f"{group}: {row['killed']} of {row['mutants']} mutants killed, {arguments.count} asked for")
        if arguments.record:
            before = known.get(group, row)
            fewer = row["mutants"] < before["mutants"] or row["seed"] != before["seed"]
            if fewer and not arguments.force:
                kept = f"{before['mutants']} mutants of seed {before['seed']}"
                raise SystemExit(f"{group} has a record of {kept}; --force replaces it")
            records.put("software", [row], GROUPS)
            records.write_page()
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("interrupted; the same command goes on from here")
