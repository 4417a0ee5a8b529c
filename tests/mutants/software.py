# SPDX-License-Identifier: BSD-2-Clause
"""Scores the tests of the host library by mutants: ``python tests/mutants/software.py [GROUP ...]``.

A mutant is one changed operator, number or statement of a file, chosen at random. The group's own tests run
on it, without the slow ones, to the first failure. Nothing in the working tree changes: a Python module is
replaced while it is imported, in child processes, too (`sitecustomize` on ``$PYTHONPATH``); a C file is
compiled into another module. A mutant that survives is a missing test, or changes nothing that can be seen;
nobody has looked unless the record says so. Results stay in ``build/mutants``, so a run that was ended goes
on. Files of MPI are left out, since their tests start ``mpirun``.
"""

from __future__ import annotations

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
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).parents[2]
BUILD = Path(os.environ.get("INCEPTIONN_BUILD", ROOT / "build")).resolve() / "mutants" / "software"
RECORD = ROOT / "docs" / "assurance-software.json"
GROUPS = {
    "codec": ("sw/native", "test_paths test_sums test_message", "codec"),
    "collectives": (
        "sw/collectives",
        "test_allreduce test_rooted test_sections test_error_feedback test_requests test_communicator",
        "collectives",
    ),
    "transport": ("sw/transport", "test_transport test_wait_any test_probe tcp/test_tcp", "transport"),
}
"""Folder of the sources, the tests that cover them, and the tests' folder."""
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
EQUIVALENT = {
    (
        "sw/native/paper/avx512.c:72",
        "+ -> -",
    ): "the loop never runs, and the scalar tail does all, with the same bits",
    ("sw/native/paper/format.c:17", "4 -> 5"): "an element of an array that is not used",
}
"""Survivors that change no result, and why; by place and change."""
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


def c_mutants(text: str) -> list[tuple[int, str, str]]:
    """The same for a C file: operators with spaces around them, and numbers, inside functions."""
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
    """The codec's module with this text in place of a file, or None if it does not compile."""
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


def verdict_of(group: str, file: Path | None, text: str, folder: Path, limit_s: float) -> str:
    """``killed``, ``time``, ``survived``, or ``no program``; without a file, of the tests as they are."""
    _, names, tests = GROUPS[group]
    environment = dict(os.environ)
    if file is not None:
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
        environment |= {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1", "MUTANT_MODULE": name,
                        "MUTANT_FILE": str(target), "MUTANT_PACKAGE": package}  # fmt: skip
    paths = [f"tests/{tests}/{name}.py" for name in names.split()]
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-m", "not slow", *paths]
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, cwd=ROOT, env=environment, start_new_session=True, **quiet) as process:
        try:
            return "killed" if process.wait(limit_s) else "survived"
        except subprocess.TimeoutExpired:
            return "time"
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # what the tests started


def sample(group: str, count: int, seed: int) -> list[tuple[Path, int, str, str]]:
    """Mutants of a group's files: file, line, change, new text."""
    folder = ROOT / GROUPS[group][0]
    pattern = "*.c" if group == "codec" else "*.py"
    files = [file for file in sorted(folder.rglob(pattern)) if not file.name.startswith(("adt", "mpi"))]
    make = c_mutants if group == "codec" else python_mutants
    every = [(file, *one) for file in files for one in make(file.read_text())]
    return random.Random(seed).sample(every, min(count, len(every)))


def run(group: str, count: int, seed: int, budget_s: float) -> dict[str, object]:
    """Judge a sample, as far as the time allows; what the record keeps."""
    BUILD.mkdir(parents=True, exist_ok=True)
    kept = BUILD / f"{group}.json"
    known = json.loads(kept.read_text()) if kept.exists() else {}
    begun = time.monotonic()
    folder = BUILD / f"{group}-work"
    folder.mkdir(exist_ok=True)
    if budget_s and verdict_of(group, None, "", folder, 600) != "survived":
        raise SystemExit(f"{group}: the tests fail without a mutant")
    limit_s = 30 + 4 * (time.monotonic() - begun)
    chosen = []
    for file, line, change, text in sample(group, count, seed):
        place = f"{file.relative_to(ROOT)}:{line}"
        key = hashlib.sha256(text.encode()).hexdigest()[:16]
        if key not in known and time.monotonic() - begun < budget_s:
            known[key] = verdict_of(group, file, text, folder, limit_s)
            kept.write_text(json.dumps(known))
            print(f"{group}: {place} {change}: {known[key]}", flush=True)
        if known.get(key, "no program") != "no program":
            chosen.append({"source": place, "change": change, "verdict": known[key]})
    survivors = []
    for one in chosen:
        if one.pop("verdict") == "survived":
            reason = EQUIVALENT.get((one["source"], one["change"]))
            survivors.append(one | ({"reason": reason} if reason else {}))
    equivalent = sum("reason" in one for one in survivors)
    log = ["git", "-C", str(ROOT), "log", "-1", "--format=%h", "--abbrev=8", "--", GROUPS[group][0]]
    commit = subprocess.run(log, capture_output=True, text=True, check=False).stdout.strip()
    killed = len(chosen) - len(survivors)
    numbers = {
        "asked": count,
        "mutants": len(chosen),
        "killed": killed,
        "equivalent": equivalent,
        "seed": seed,
    }
    return {"name": group, **numbers, "survivors": survivors, "commit": commit}


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
    parser.add_argument("--record", action="store_true", help=f"put the results into docs/{RECORD.name}")
    arguments = parser.parse_args()
    if unknown := sorted(set(arguments.groups) - set(GROUPS)):
        parser.error(f"{shlex.quote(unknown[0])} must be one of {', '.join(GROUPS)}")
    for group in arguments.groups or GROUPS:
        row = run(group, arguments.count, arguments.seed, arguments.seconds)
        print(f"{group}: {row['killed']} of {row['mutants']} mutants killed, {arguments.count} asked for")
        if arguments.record:
            older = json.loads(RECORD.read_text()) if RECORD.exists() else []
            rows = {one["name"]: one for one in [*older, row]}
            RECORD.write_text(json.dumps([rows[name] for name in GROUPS if name in rows], indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
