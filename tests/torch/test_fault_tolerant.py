# SPDX-License-Identifier: BSD-2-Clause
"""The example with torchft: a replica is killed in mid-step, and the others go on without a restart."""

import re
import sys
from pathlib import Path

import pytest
from programs import said_by

pytest.importorskip("torchft", reason="no torchft here: pip install torchft")

EXAMPLE = Path(__file__).parents[2] / "examples" / "fault_tolerant.py"
STEPS, LOST_IN = 24, 14


@pytest.mark.slow
def test_the_others_go_on() -> None:
    lost = ["--fail-replica", "1", "--fail-step", str(LOST_IN)]
    said = said_by(sys.executable, EXAMPLE, "--steps", STEPS, *lost, timeout=300, OMP_NUM_THREADS="1")
    for replica in (0, 2):
        assert f"replica {replica}: {LOST_IN} of 3" in said
        assert f"replica {replica}: {STEPS} of 2" in said
    assert f"replica 1: {LOST_IN + 1} " not in said
    weights = re.findall(r"weights ([0-9a-f]+)", said)
    assert len(weights) == 2
    assert len(set(weights)) == 1
    assert re.search(r"^all +software ", said, re.MULTILINE)
