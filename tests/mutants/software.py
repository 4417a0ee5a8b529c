# SPDX-License-Identifier: BSD-2-Clause
"""Scores the tests of the host library by mutants: ``python tests/mutants/software.py [GROUP ...]``.

A mutant is one changed operator, number or statement of a file, chosen at random. Those of the group's
tests that reach its line run on it, the quickest first, to the first failure (`reaching.py`); all that
reach the file where none reaches the line, as with what runs at import, and all where the file is C. Slow
tests are left out. Nothing in the working tree changes: a changed function gets its code in a copy of a
process that has collected all tests; where more than functions change, a Python module is replaced while it
is imported (`sitecustomize` on ``$PYTHONPATH``); a C file is compiled into another module. A mutant that
survives is a missing test, or changes nothing that can be seen; `software_reasons.py` says why. Results
stay in ``build/mutants`` while the group's tests do not change, so a run that was ended goes on; ``--again``
judges survivors again. Files of MPI are left out, since their tests start ``mpirun``.
"""

import argparse
import ast
import hashlib
import inspect
import json
import marshal
import os
import random
import re
import shlex
import signal
import socket
import subprocess
import sys
import sysconfig
import time
import tomllib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import CodeType
from typing import TextIO

from reaching import NOT_THERE, TIME
from software_reasons import REASONS

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
    "Lt": "LtE", "LtE": "Lt", "Gt": "GtE", "GtE": "Gt", "Eq": "NotEq", "NotEq": "Eq", "In": "NotIn",
    "NotIn": "In", "Is": "IsNot", "IsNot": "Is", "Add": "Sub", "Sub": "Add", "Mult": "FloorDiv",
    "FloorDiv": "Mult", "Mod": "Add", "LShift": "RShift", "RShift": "LShift", "BitAnd": "BitOr",
    "BitOr": "BitAnd", "And": "Or", "Or": "And",
}  # fmt: skip
C_SWAPS = {
    "<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "+": "-", "-": "+", "*": "+",
    "<<": ">>", ">>": "<<", "&": "|", "|": "&", "&&": "||", "||": "&&", "+=": "-=", "|=": "&=",
}  # fmt: skip
HANG_S = 40
"""What one test may take, in seconds; all tests of a mutant may take ten times that."""
HANGS = ("-o", f"faulthandler_timeout={HANG_S}", "-o", "faulthandler_exit_on_timeout=true")
_CRASHES = (signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGABRT)
VERDICTS = {0: "survived", 1: "killed", 2: "killed", TIME: "time"}
VERDICTS |= dict.fromkeys((-number for number in _CRASHES), "killed")
"""By the exit status of the tests: 1 where one fails, 2 where none can be imported. Others judge nothing."""
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


def python_mutants(text: str) -> list[tuple[int, str, str]]:
    """Line, change and new source of every mutant of a Python module; docstrings and types are left alone."""
    found, number = [], 0
    while True:
        tree = ast.parse(text)
        change = change_at(tree, number)
        if change is None:
            return found
        found.append((*change, ast.unparse(tree)))
        number += 1


def change_at(tree: ast.Module, number: int) -> tuple[int, str] | None:
    """Make the change of this number in the tree; its line and what it is."""
    left = number
    for node in ast.walk(tree):
        for holder, key in ((node, "op"), *((node.ops, i) for i in range(len(getattr(node, "ops", ()))))):
            value = holder[key] if isinstance(holder, list) else getattr(holder, key, None)
            old = type(value).__name__
            if old not in SWAPS:
                continue
            if left == 0:
                new = getattr(ast, SWAPS[old])()
                holder.__setitem__(key, new) if isinstance(holder, list) else setattr(holder, key, new)
                return node.lineno, f"{old} -> {SWAPS[old]}"
            left -= 1
        if isinstance(node, ast.Constant) and type(node.value) in (int, bool):
            if left == 0:
                old, node.value = (
                    node.value,
                    (not node.value if type(node.value) is bool else node.value + 1),
                )
                return node.lineno, f"{old} -> {node.value}"
            left -= 1
        for field in ("body", "orelse", "finalbody"):
            block = getattr(node, field, None)
            for place, one in enumerate(block if isinstance(block, list) else ()):
                call = isinstance(one, ast.Expr) and isinstance(one.value, ast.Call)
                if not call and not isinstance(one, (ast.AugAssign, ast.Raise, ast.Continue, ast.Break)):
                    continue
                if left == 0:
                    block[place] = ast.copy_location(ast.Pass(), one)
                    return one.lineno, f"without `{ast.unparse(one).splitlines()[0][:60]}`"
                left -= 1
    return None


def function_changes(text: str, number: int, file: Path) -> bytes | None:
    """Return the functions that a mutant changes and their new code, marshalled; None if it changes more.

    Then those within these, which there are if the outer ones have run already, as decorators have.
    """
    tree = ast.parse(text)
    change_at(tree, number)
    found = changed_functions(compile(text, file, "exec"), compile(tree, file, "exec"))
    within = [pair for outer in found or () for pair in changed_within(*outer)]
    return marshal.dumps((found, within)) if found else None


def changed_within(old: CodeType, new: CodeType) -> list[tuple[CodeType, CodeType]]:
    """Return the functions within a function that differ, with their new code; none if one is missing now."""
    before, after = ([one for one in code.co_consts if isinstance(one, CodeType)] for code in (old, new))
    if len(before) != len(after):
        return []
    inner = [(a, b) for a, b in zip(before, after, strict=True) if a != b]
    return [*inner, *(pair for one in inner for pair in changed_within(*one))]


def changed_functions(old: CodeType, new: CodeType) -> list[tuple[CodeType, CodeType]] | None:
    """Return the functions that differ, with their new code; None if what runs at import differs."""
    pairs = list(zip(old.co_consts, new.co_consts, strict=False))
    inner = [(a, b) for a, b in pairs if isinstance(a, CodeType)]
    others = [(a, b) for a, b in pairs if not isinstance(a, CodeType) and a != b]
    if others or old.co_code != new.co_code or len(old.co_consts) != len(new.co_consts):
        return None
    found = []
    for a, b in inner:
        if a.co_flags & inspect.CO_OPTIMIZED:
            found += [(a, b)] if a != b else []
        elif (within := changed_functions(a, b)) is None:  # the body of a class
            return None
        else:
            found += within
    return found


def lines_of_types(text: str) -> set[int]:
    """Return the lines with an operator between types."""
    parts = [
        getattr(node, key, None) for node in ast.walk(ast.parse(text)) for key in ("annotation", "returns")
    ]
    return {one.lineno for part in parts if part for one in ast.walk(part) if isinstance(one, ast.BinOp)}


def c_mutants(text: str) -> list[tuple[int, str, str]]:
    """Do the same as `python_mutants` for a C file.

    Mutants are of operators with spaces around them, and of numbers, inside functions.
    """
    hidden = re.sub(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\n])*\"|^[ ]*#[^\n]*$|^\S[^\n]*$",
                    lambda m: re.sub(r"[^\n]", " ", m[0]), text, flags=re.DOTALL | re.MULTILINE)  # fmt: skip
    found = []
    for match in re.finditer(r"(?<= )([-+*<>=!&|]{1,2})(?= )|\b(\d+)\b", hidden):
        old = match[0]
        new = C_SWAPS.get(old) if match[1] else str(int(old) + 1)
        if new:
            line = text.count("\n", 0, match.start()) + 1
            found.append((line, f"{old} -> {new}", text[: match.start()] + new + text[match.end() :]))
    return found


def compiled(file: Path, text: str, folder: Path) -> Path | None:
    """Compile the codec's module with this text in place of a file; return None if it does not compile."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    module = project["tool"]["setuptools"]["ext-modules"][0]
    native = ROOT / "sw" / "native"
    include = [f"-I{path}" for path in (file.parent, native, sysconfig.get_paths()["include"])]
    compiler = ["cc", "-fPIC", "-w", *module.get("extra-compile-args", []), *include]
    objects = []
    for source in map(ROOT.joinpath, module["sources"]):
        kept = BUILD / f"{hashlib.sha256(source.read_bytes()).hexdigest()[:12]}-{source.stem}.o"
        objects.append(folder / "mutant.o" if source == file else kept)
        if source != file and not kept.exists():
            subprocess.run([*compiler, f"-I{source.parent}", "-c", source, "-o", kept], check=True)
    (folder / "mutant.c").write_text(text)
    made = subprocess.run([*compiler, "-c", folder / "mutant.c", "-o", objects[module["sources"].index(
        str(file.relative_to(ROOT)))]], check=False, capture_output=True)  # fmt: skip
    if made.returncode:
        return None
    library = folder / "mutant.so"
    linked = subprocess.run(["cc", "-shared", "-o", library, *objects, "-lpthread", "-lm"], check=False)
    return library if linked.returncode == 0 else None


def state_of(group: str) -> str:
    """Hash of the tests that cover a group, and of what all tests share."""
    folders = [
        ROOT / "tests" / "support",
        *(ROOT / one for one in GROUPS[group][1] if one.startswith("tests/")),
    ]
    files = sorted({file for one in folders for file in ([one] if one.is_file() else one.rglob("*.py"))})
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]


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


def chosen_tests(group: str, file: Path, line: int) -> list[str]:
    """Return the tests to run on a mutant in this line, the quickest first."""
    names, by_line = reaching(group)
    numbers = by_line.get(f"{file}:{line}")
    if numbers is None:
        numbers = {one for place, some in by_line.items() if place.startswith(f"{file}:") for one in some}
    return [names[number] for number in sorted(numbers)] or names


@contextmanager
def started(
    plugin: dict[str, str], *arguments: str, keep: tuple[int, ...] = ()
) -> Iterator[subprocess.Popen]:
    """Start tests with the plugin, to the first failure; they end with the context."""
    path = os.pathsep.join(filter(None, (plugin.get("PYTHONPATH"), str(Path(__file__).parent))))
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-p", "reaching"]
    command += ["-m", "not slow", *arguments]
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    environment = os.environ | plugin | {"PYTHONPATH": path}
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, pass_fds=keep, start_new_session=True, **quiet
    ) as process:
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # what the tests started


def pytest(limit_s: float, plugin: dict[str, str], *arguments: str) -> int:
    """Run tests with the plugin to the first failure; the exit status, or `TIME` after that time."""
    with started(plugin, *arguments) as process:
        try:
            return process.wait(limit_s)
        except subprocess.TimeoutExpired:
            return TIME


@contextmanager
def forking(group: str) -> Iterator[TextIO]:
    """Yield a stream for orders to a process that has collected the group's tests."""
    ours, theirs = socket.socketpair()
    with ours, theirs, ours.makefile("rw") as stream:
        orders = {"ORDERS": str(theirs.fileno())}
        with started(orders, *HANGS, *GROUPS[group][1], keep=(theirs.fileno(),)):
            theirs.close()
            yield stream


def verdict_in_fork(stream: TextIO, functions: bytes, tests: list[str]) -> str | None:
    """Return the same as `verdict_of`; None if the tests' process does not have all of the functions."""
    order = {"functions": functions.hex(), "tests": tests, "limit_s": 10 * HANG_S}
    stream.write(f"{json.dumps(order)}\n")
    stream.flush()
    status = int(stream.readline())
    return None if status == NOT_THERE else VERDICTS.get(status, f"status {status}")


def verdict_of(group: str, file: Path, text: str, folder: Path, tests: list[str]) -> str:
    """``killed``, ``time``, ``survived``, ``no program``, or a status of pytest that judges nothing."""
    package, name = "", ".".join(("inceptionn", *file.relative_to(ROOT / "sw").with_suffix("").parts))
    target: Path | None = folder / "mutant.py"
    if file.suffix == ".c":
        target, name = compiled(file, text, folder), "inceptionn.native.codec"
    else:
        target.write_text(text)
        if file.stem == "__init__":
            package, name = str(file.parent), name.removesuffix(".__init__")
    if target is None:
        return "no program"
    (folder / "sitecustomize.py").write_text(CUSTOMIZE)
    (folder / "tests.json").write_text(json.dumps(tests))
    plugin = {
        "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1", "CHOSEN": str(folder / "tests.json"),
        "MUTANT_MODULE": name, "MUTANT_FILE": str(target), "MUTANT_PACKAGE": package,
    }  # fmt: skip
    status = pytest(10 * HANG_S, plugin, *HANGS, *dict.fromkeys(one.partition("::")[0] for one in tests))
    return VERDICTS.get(status, f"status {status}")


def reason_of(file: Path, line: int, change: str) -> str | None:
    """Why a survivor is equivalent, if it is."""
    text = file.read_text().splitlines()[line - 1].strip()
    return REASONS.get(str(file.relative_to(ROOT / "sw")), {}).get((text, change))


def every_mutant(group: str) -> list[tuple[Path, int, int, str, str]]:
    """Mutants of a group's files: file, number in it, line, change, new text.

    Changes that read alike in lines that read alike are numbered: ``0 -> 1 (2)``.
    """
    folder = ROOT / GROUPS[group][0]
    pattern = "*.c" if group == "codec" else "*.py"
    make = c_mutants if group == "codec" else python_mutants
    found = []
    for file in sorted(folder.rglob(pattern)):
        if file.name.startswith(("adt", "mpi")):
            continue
        text, alike = file.read_text(), Counter()
        for number, (line, change, new) in enumerate(make(text)):
            same = text.splitlines()[line - 1].strip(), change
            alike[same] += 1
            found.append((file, number, line, change + (f" ({alike[same]})" if alike[same] > 1 else ""), new))
    return found


def sample(group: str, count: int, seed: int) -> list[tuple[Path, int, int, str, str]]:
    """Draw some of them, without those that change a type."""
    every = every_mutant(group)
    drawn = random.Random(seed).sample(every, min(count, len(every)))
    types = {one[0]: lines_of_types(one[0].read_text()) for one in drawn if one[0].suffix == ".py"}
    return [one for one in drawn if "BitOr -> BitAnd" not in one[3] or one[2] not in types.get(one[0], ())]


def run(group: str, count: int, seed: int, budget_s: float, again: bool) -> dict[str, object]:
    """Judge a sample, as far as the time allows; what the record keeps."""
    BUILD.mkdir(parents=True, exist_ok=True)
    kept = BUILD / f"{group}-{state_of(group)}.json"
    known = json.loads(kept.read_text()) if kept.exists() else {}
    begun = time.monotonic()
    folder = BUILD / f"{group}-work"
    folder.mkdir(exist_ok=True)
    if budget_s:
        reaching(group, again)
    chosen = []
    drawn = sample(group, count, seed)
    with forking(group) as stream:
        for file, number, line, change, text in drawn:
            place = f"{file.relative_to(ROOT)}:{line}"
            key = hashlib.sha256(text.encode()).hexdigest()[:16]
            open_ = key not in known or (
                again and known[key] == "survived" and reason_of(file, line, change) is None
            )
            if open_ and time.monotonic() - begun < budget_s:
                verdict, tests = None, chosen_tests(group, file, line)
                if file.suffix == ".py" and (functions := function_changes(file.read_text(), number, file)):
                    verdict = verdict_in_fork(stream, functions, tests)
                verdict = verdict or verdict_of(group, file, text, folder, tests)
                if verdict == "survived" and file.name in BESIDES:
                    verdict = verdict_of(group, file, text, folder, BESIDES[file.name])
                print(f"{group}: {place} {change}: {verdict}", flush=True)
                if not verdict.startswith("status"):
                    known[key] = verdict
                    atomic_file.write(kept, json.dumps(known))
            if known.get(key, "no program") != "no program":
                reason = reason_of(file, line, change)
                one = {"source": place, "change": change} | ({"reason": reason} if reason else {})
                chosen.append((known[key], one))
    survivors = [one for verdict, one in chosen if verdict == "survived"]
    return {
        "name": group, "asked": count, "mutants": len(chosen), "killed": len(chosen) - len(survivors),
        "equivalent": sum("reason" in one for one in survivors), "seed": seed, "survivors": survivors,
        "commit": records.commit(GROUPS[group][0]),
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
