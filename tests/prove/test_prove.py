# SPDX-License-Identifier: BSD-2-Clause
"""The command that proves: a quick harness, its refusals, and the page it writes."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from missing import missing
from programs import ended, said_by

from inceptionn.system.programs import find_program

ROOT = Path(__file__).parents[2]
COMMAND = Path(__file__).with_name("prove.py")


def prove(*arguments: str, folder: Path = COMMAND.parent) -> subprocess.CompletedProcess[str]:
    return ended(sys.executable, folder / COMMAND.name, *arguments)


@pytest.fixture
def solver() -> None:
    if find_program("yices-smt2") is None:
        missing("yices-smt2 is not installed: pip install 'inceptionn[prove]'")


def test_every_harness_is_recorded() -> None:
    recorded = json.loads((ROOT / "docs" / "assurance.json").read_text(encoding="utf-8"))
    assert [row["name"] for row in recorded] == prove("--list").stdout.splitlines()


def test_a_selection_that_names_nothing() -> None:
    done = prove("flux_capacitor")
    assert done.returncode == 2
    assert "no harness has flux_capacitor in its name; --list names all" in done.stderr


HARNESSES = """
from harness import Harness
from prove import load, place_of
for module, proof in load().values():
    proof.build(harness := Harness())
    harness.rtlil()
    for fault in proof.faults:
        assert place_of(fault)[2] == 1, f"{proof.name}: {fault}"
    print(proof.name)
"""


@pytest.mark.slow
@pytest.mark.skipif(bool(os.environ.get("CI")), reason="`make prove` has shown it")
def test_every_harness_fits_the_rtl() -> None:
    """It elaborates, and its faults are in the source; to prove all takes minutes, and `make prove` does."""
    assert said_by(sys.executable, "-c", HARNESSES, cwd=COMMAND.parent) == prove("--list").stdout


STANDS = """
import records
from dataclasses import replace
from prove import load, stands, terms
_, proof = load()["queue, 1 of 2"]
row = next(row for row in records.load("proofs") if row["name"] == proof.name)
circuit, fault = row["circuit"], proof.faults[0]
gone = replace(proof, faults=(replace(fault, old="no such line"),))
print(stands(proof, row, circuit))
print(
    stands(proof, None, circuit),
    stands(proof, row, "another"),
    stands(replace(proof, refute_depth=proof.refute_depth + 1), row, circuit),
    stands(replace(proof, faults=(*proof.faults, replace(fault, new="0"))), row, circuit),
    stands(gone, row | {"terms": terms(gone)}, circuit),
)
"""


def test_what_stands_as_recorded() -> None:
    """Nothing that differs in circuit, depth or faults, or whose faults are not in the source."""
    first, second = said_by(sys.executable, "-c", STANDS, cwd=COMMAND.parent).splitlines()
    assert (first, set(second.split())) == ("True", {"False"})


@pytest.mark.usefixtures("solver")
def test_a_join_is_proved() -> None:
    done = prove("join of 4 bytes", "--json", "--quiet")
    assert done.returncode == 0, done.stderr
    (result,) = json.loads(done.stdout)
    assert (result["error"], len(result["claims"]), len(result["faults"])) == ("", 2, 2)


TOY = """
from amaranth.hdl import C
from harness import Fault, Proof
from inceptionn.hdl.parts.joining import join_parts

def build(h):
    low = h.anything(8, "low")
    seen = h.past(low)
    joined, *_ = join_parts(h.m, "join", [low, low], [C(1, 1), C(1, 1)], 1)
    h.assume("it can be met", {assumption})
    h.claim("it is what it was", {claim})
    h.cover("a value", {cover})

PROOFS = (Proof("toy", build, 3, (Fault("parts.joining", {old!r}, "width, step = 2, 1"),){options}),)
"""
WIDTH = "width, step = 2 * len(parts[0]), 1"


def prove_toy(
    folder: Path, *, assumption: str = "1", claim: str = "seen == seen", cover: str = "low == 3",
    old: str = WIDTH, options: str = "",
) -> subprocess.CompletedProcess[str]:  # fmt: skip
    for name in ("harness.py", "prove.py"):
        text = COMMAND.with_name(name).read_text(encoding="utf-8")
        (folder / name).write_text(re.sub(r"^MODULES = .*$", 'MODULES = ("toy",)', text, flags=re.MULTILINE))
    (folder / "records.py").symlink_to(COMMAND.with_name("records.py"))
    toy = TOY.format(assumption=assumption, claim=claim, cover=cover, old=old, options=options)
    (folder / "toy.py").write_text(toy)
    return prove("--json", "--quiet", folder=folder)


@pytest.mark.usefixtures("solver")
@pytest.mark.parametrize(
    ("toy", "error"),
    [
        ({"claim": "seen == low"}, "refuted from reset: it is what it was"),
        ({"cover": "seen != seen"}, "not reached: a value"),
        ({}, "this seeded fault is not found"),
        ({"options": ", apart=True"}, "this seeded fault is not found"),
        ({"claim": "~h.running(4)"}, "not inductive within 3 steps: it is what it was"),
        (
            {"claim": "~h.running(4)", "options": ", apart=True"},
            "not inductive within 3 steps: it is what it was",
        ),
        # What leaves no run to check refutes nothing.
        ({"claim": "len(joined) == 16", "assumption": "len(joined) == 16"}, "this seeded fault is not found"),
        ({"old": "no such line"}, "must stand once in parts.joining, not 0 times"),
    ],
)
def test_what_is_not_a_proof(toy: dict[str, str], error: str, tmp_path: Path) -> None:
    done = prove_toy(tmp_path, **toy)
    assert done.returncode == 1
    assert error in json.loads(done.stdout)[0]["error"]


@pytest.mark.parametrize("depth", ["cover_depth", "refute_depth"])
def test_what_is_reached_must_be_checked(depth: str, tmp_path: Path) -> None:
    """Without induction a claim holds for ``depth`` cycles alone, so no cover or fault may need more."""
    done = prove_toy(tmp_path, options=f", bounded=True, {depth}=4")
    assert done.returncode == 1
    assert "covers and faults must be within the cycles checked: 'toy'" in done.stderr
