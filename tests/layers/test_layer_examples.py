# SPDX-License-Identifier: BSD-2-Clause
"""The example scripts of the layers, run as their first lines say."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"

Mpirun = Callable[..., str]


def accuracy(line: str) -> float:
    found = re.search(r"accuracy +([0-9.]+)", line)
    assert found, line
    return float(found[1])


@pytest.mark.slow
def test_parameter_server(mpirun: Mpirun, tmp_path: Path) -> None:
    program = str(EXAMPLES / "parameter_server.py")
    out = mpirun(4, program, "--servers", "1", "--codec", "--steps", "110", "--checkpoints", str(tmp_path))
    assert "3 workers, 1 servers, sync, mlp-64-128-10" in out
    assert float(re.search(r"push .*ratio ([0-9.]+)", out)[1]) > 2
    assert accuracy(out) > 0.9
    out = mpirun(
        4, program, "--servers", "1", "--tcp", "--steps", "110", "--codec", "--restore", str(tmp_path)
    )
    assert "restored at step 100" in out
    assert accuracy(out) > 0.9


def test_parallax(mpirun: Mpirun) -> None:
    out = mpirun(3, str(EXAMPLES / "parallax.py"), "--words", "2000", "--steps", "60", "--tcp")
    assert "3 workers, hybrid, embedding of 2000 x 64" in out
    assert "embedding by       parameter server" in out
    assert re.search(r"bytes/step +local +\d+", out)  # three ranks of one machine


@pytest.mark.slow
def test_ssd_sgd(mpirun: Mpirun) -> None:
    out = mpirun(4, str(EXAMPLES / "ssd_sgd.py"), "--k", "3", "--steps", "120", "--warm-up", "30", "--codec")
    assert out.startswith("SSD-SGD, k = 3, glu")
    assert accuracy(out) > 90
    assert "62 pulls" in out  # one at the start, 30, then one in three of 90, one at the end
