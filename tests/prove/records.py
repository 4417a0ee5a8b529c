# SPDX-License-Identifier: BSD-2-Clause
"""Keeps what the assurance commands found, ``docs/assurance*.json``, and sums it up in ``docs/assurance.md``.

``python tests/prove/records.py`` writes the summary, which names the records that are not about today's RTL.
"""

import hashlib
import importlib
import json
import os
import re
import runpy
import subprocess
import sys
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from inceptionn.hdl.catalogue import CATALOGUE
from inceptionn.hdl.verilog import to_rtlil
from inceptionn.system import atomic_file

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "hdl"))
from same_rtl import anonymous  # noqa: E402

DOCS = ROOT / "docs"
BUILD = Path(os.environ.get("INCEPTIONN_BUILD", ROOT / "build")).resolve()
FILES = {
    "proofs": "assurance.json",
    **{
        name: f"assurance-{name}.json"
        for name in ("mutants", "coverage", "software", "frames", "fuzz", "steadiness")
    },
}

FITTED = 1
"""Seed of the sample of mutants that benches were extended on."""

Rows = list[dict[str, Any]]


def load(name: str) -> Rows:
    """Return a record's rows; ends the command if the file cannot be read."""
    path = DOCS / FILES[name]
    try:
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    except ValueError as error:
        raise SystemExit(f"{path} is not JSON ({error}); git checkout {path.relative_to(ROOT)}") from None


def save(name: str, rows: Rows) -> None:
    """Write a record; a row of coverage is one line."""
    text = json.dumps(rows, indent=1)
    if name == "coverage":
        text = "[\n " + ",\n ".join(map(json.dumps, rows)) + "\n]"
    atomic_file.write(DOCS / FILES[name], text + "\n")


def put(name: str, new: Rows, order: Iterable[str]) -> None:
    """Put rows into a record in place of those of the same name, in this order; others are dropped.

    Of mutants of the RTL, the fitted sample and another one stand side by side.
    """

    def key(row: dict[str, Any]) -> tuple[str, bool]:
        return row["name"], name == "mutants" and row["seed"] != FITTED

    known = {key(row): row for row in [*load(name), *new]}
    save(name, [known[one, other] for one in order for other in (False, True) if (one, other) in known])


def commit(folder: str = "hdl") -> str:
    """Return the last commit that changed the folder, with "+" if it has changed since."""
    git = ["git", "-C", str(ROOT)]
    log = [*git, "log", "-1", "--format=%h", "--abbrev=8", "--", folder]
    name = subprocess.run(log, capture_output=True, text=True, check=False).stdout.strip()
    return name + ("+" if subprocess.run([*git, "diff", "--quiet", "HEAD", "--", folder]).returncode else "")


def digest(rtlil: str) -> str:
    """Hash of a circuit, whatever its names and lines of source are; a claim's ``src`` is its text."""
    without_lines = re.sub(r'^ *attribute \\src "(?!text:).*\n', "", rtlil, flags=re.MULTILINE)
    return hashlib.sha256(anonymous(without_lines).encode()).hexdigest()[:12]


def circuit(name: str) -> str:
    """Hash of a component of the catalogue as it is today, in its usual size."""
    return digest(to_rtlil(CATALOGUE[name].make(), name))


def today() -> dict[str, str]:
    """Hashes of all components with a bench, and of all harnesses, by name.

    They take a minute; those of the last call are kept in ``build`` until Amaranth changes, or a source of
    the RTL, of its constants or of a harness.
    """
    folders = ("hdl", "sw/wire", "tests/prove")
    sources = sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))
    texts = (version("amaranth").encode(), *(path.read_bytes() for path in sources))
    state = hashlib.sha256(b"".join(texts)).hexdigest()
    cache = BUILD / "circuits.json"
    kept = json.loads(cache.read_text()) if cache.exists() else {}
    if kept.get("state") != state:
        proofs = importlib.import_module("prove")
        found = {name: circuit(name) for name, entry in CATALOGUE.items() if entry.bench}
        found |= {f"proof {name}": proofs.circuit(proof) for name, (_, proof) in proofs.load().items()}
        kept = {"state": state, "circuits": found}
        cache.parent.mkdir(parents=True, exist_ok=True)
        atomic_file.write(cache, json.dumps(kept))
    return kept["circuits"]


def changed(today: dict[str, str]) -> dict[str, list[str]]:
    """Return the records about a circuit that has another hash ``today``: the names in each file."""
    found: dict[str, dict[str, None]] = {"proofs": {}, "mutants": {}, "coverage": {}}
    for file, names in found.items():
        prefix = "proof " if file == "proofs" else ""
        for row in load(file):
            if row.get("circuit") != today.get(prefix + row["name"], ""):
                names[row["name"]] = None
    return {file: list(names) for file, names in found.items()}


def page(today: dict[str, str]) -> str:
    """Return the page on assurance with the summary of what is recorded."""
    text = (DOCS / "assurance.md").read_text(encoding="utf-8")
    return runpy.run_path(str(DOCS / "assurance.py"))["page_of"](text, changed(today))


def write_page() -> None:
    """Write the page from the records."""
    atomic_file.write(DOCS / "assurance.md", page(today()))


if __name__ == "__main__":
    write_page()
