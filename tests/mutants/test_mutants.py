# SPDX-License-Identifier: BSD-2-Clause
"""The command that scores the benches: a small component, its refusals, and the proof of equivalence."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = Path(__file__).with_name("mutants.py")

GATES = """
module \\gates
  wire input 1 \\a
  wire input 2 \\b
  wire output 3 \\y
  cell $or $again
    parameter \\A_SIGNED 0
    parameter \\B_SIGNED 0
    parameter \\A_WIDTH 1
    parameter \\B_WIDTH 1
    parameter \\Y_WIDTH 1
    connect \\A \\a
    connect \\B \\a
    connect \\Y \\y
  end
end
"""
"""``y = a | a``: without one of the two it is the same, with one inverted it is not."""


def run(code: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *([code] if code.endswith(".py") else ["-c", code]), *arguments],
        capture_output=True, text=True, check=False, timeout=600, cwd=COMMAND.parent,
        env=os.environ | environment,
    )  # fmt: skip


@pytest.mark.parametrize(("mode", "proved"), [("const0", True), ("inv", False)])
def test_a_proof_of_equivalence(mode: str, proved: bool) -> None:
    change = f"mutate -mode {mode} -module gates -cell $again -port B -portbit 0"
    done = run(f"from equivalent import equivalent; print(equivalent({GATES!r}, {change!r}, 'gates'))")
    assert done.stdout.strip() == str(proved), done.stderr


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("flux_capacitor",), "flux_capacitor must be a component with a bench: compression_block, "),
        (("tos_matcher", "--count", "0"), "--count must be from 1 to 65535, not 0"),
    ],
)
def test_a_refusal(arguments: tuple[str, ...], error: str) -> None:
    done = run(str(COMMAND), *arguments)
    assert done.returncode == 2
    assert error in done.stderr


@pytest.mark.slow
def test_mutants_of_a_small_component(tmp_path: Path) -> None:
    arguments = (str(COMMAND), "tos_matcher", "--count", "12", "--at-least", "90")
    done = run(*arguments, INCEPTIONN_BUILD=str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    (kept,) = tmp_path.glob("mutants/*/mutants.json")
    mutants = json.loads(kept.read_text())
    assert len(mutants) == 12
    killed = [one for one in mutants if one["verdict"] == "killed"]
    assert all(one["by"] and one["source"].startswith("hdl/") for one in killed)
    assert len(killed) >= 9
    # The second run takes all from the folder.
    assert run(*arguments, INCEPTIONN_BUILD=str(tmp_path), CXX="/none").stdout == done.stdout
