# SPDX-License-Identifier: BSD-2-Clause
"""The example with torchft: a replica is killed in mid-step, and the others go on without a restart."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torchft", reason="no torchft here: pip install torchft")

EXAMPLE = Path(__file__).parents[2] / "examples" / "fault_tolerant.py"
STEPS, LOST_IN = 24, 14


@pytest.mark.slow
def test_the_others_go_on() -> None:
    lost = ["--fail-replica", "1", "--fail-step", str(LOST_IN)]
    done = subprocess.run(
        [sys.executable, str(EXAMPLE), "--steps", str(STEPS), *lost],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for replica in (0, 2):
        assert f"replica {replica}: {LOST_IN} of 3" in done.stdout
        assert f"replica {replica}: {STEPS} of 2" in done.stdout
    assert f"replica 1: {LOST_IN + 1} " not in done.stdout
    weights = re.findall(r"weights ([0-9a-f]+)", done.stdout)
    assert len(weights) == 2
    assert len(set(weights)) == 1
    assert re.search(r"^all +software ", done.stdout, re.MULTILINE)
