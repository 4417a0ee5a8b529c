# SPDX-License-Identifier: BSD-2-Clause
"""The example scripts of the layers, run as their first lines say."""

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
def test_parameter_server(mpirun: Mpirun, tmp_path: Path) -> None:
    program = str(EXAMPLES / "parameter_server.py")
    options = ["--servers", "1", "--codec", "paper", "--steps", "110"]
    out = mpirun(4, program, *options, "--checkpoints", str(tmp_path))
    assert "3 workers, 1 servers, sync, mlp-64-128-10" in out
    assert number("push .*ratio", out) > 2
    assert number("accuracy", out) > 0.9
    out = mpirun(4, program, *options, "--tcp", "--restore", str(tmp_path))
    assert "restored at step 100" in out
    assert number("accuracy", out) > 0.9


def test_parallax(mpirun: Mpirun) -> None:
    out = mpirun(3, str(EXAMPLES / "parallax.py"), "--words", "2000", "--steps", "60", "--tcp")
    assert "3 workers, hybrid, embedding of 2000 x 64" in out
    assert "embedding by       parameter server" in out
    assert re.search(r"bytes/step +local +\d+", out)  # three ranks of one machine


@pytest.mark.slow
def test_ssd_sgd(mpirun: Mpirun) -> None:
    options = ["--k", "3", "--steps", "120", "--warm-up", "30", "--codec", "paper"]
    out = mpirun(4, str(EXAMPLES / "ssd_sgd.py"), *options)
    assert out.startswith("SSD-SGD, k = 3, glu")
    assert number("accuracy", out) > 90
    assert "62 pulls" in out  # one at the start, 30, then one in three of 90, one at the end


@pytest.mark.slow
def test_a2dtwp(mpirun: Mpirun) -> None:
    program = str(EXAMPLES / "a2dtwp.py")
    out = mpirun(4, program, "--aggregator", "--steps", "120", "--interval", "30")
    assert "4 workers, mlp-64-128-10, AWP T 0.001, INTERVAL 30, N 8, from 8" in out
    assert number(r"weights +\d+ +ratio", out) > 1.5
    assert number("accuracy", out) > 0.9
    out = mpirun(2, program, "--oracle", "2", "--codec", "paper", "--steps", "120")
    assert "fc1.weight 16, fc1.bias 32" in out
    assert number(r"pull +\d+ +ratio", out) > 1.9
    assert number("accuracy", out) > 0.9


@pytest.mark.slow
def test_gradiveq(mpirun: Mpirun) -> None:
    pytest.importorskip("torch")
    options = ["--steps", "120", "--warm-up", "10", "--sampling", "20", "--compressed", "70"]
    out = mpirun(2, str(EXAMPLES / "gradiveq.py"), *options, "--channels", "16,32", "--codec", "paper")
    assert "phases      warm-up from 0, sampling from 10, compressed from 30, sampling from 100" in out
    assert number("all bytes +ratio", out) > 4
    assert number("accuracy", out) > 0.9
