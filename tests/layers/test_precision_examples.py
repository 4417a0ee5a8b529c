# SPDX-License-Identifier: BSD-2-Clause
"""The example scripts of A2DTWP and GradiVeQ, run as their first lines say."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"

Mpirun = Callable[..., str]


def number(pattern: str, text: str) -> float:
    found = re.search(pattern + r" +([0-9.]+)", text)
    assert found, text
    return float(found[1])


@pytest.mark.slow
def test_a2dtwp(mpirun: Mpirun) -> None:
    program = str(EXAMPLES / "a2dtwp.py")
    out = mpirun(4, program, "--aggregator", "--steps", "120", "--interval", "30")
    assert "4 workers, mlp-64-128-10, AWP T 0.001, INTERVAL 30, N 8, from 8" in out
    assert number(r"weights +\d+ +ratio", out) > 1.5
    assert number("accuracy", out) > 0.9
    out = mpirun(2, program, "--oracle", "2", "--codec", "--steps", "120")
    assert "fc1.weight 16, fc1.bias 32" in out
    assert number(r"pull +\d+ +ratio", out) > 1.9
    assert number("accuracy", out) > 0.9


@pytest.mark.slow
def test_gradiveq(mpirun: Mpirun) -> None:
    options = ["--steps", "120", "--warm-up", "10", "--sampling", "20", "--compressed", "70", "--codec"]
    out = mpirun(2, str(EXAMPLES / "gradiveq.py"), *options, "--channels", "16,32")
    assert "phases      warm-up from 0, sampling from 10, compressed from 30, sampling from 100" in out
    assert number("all bytes +ratio", out) > 4
    assert number("accuracy", out) > 0.9
