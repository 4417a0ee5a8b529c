# SPDX-License-Identifier: BSD-2-Clause
"""Real MPI processes, and the README's example."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PROGRAM = str(Path(__file__).with_name("mpi_program.py"))


JOBS = {
    1: ["collectives"],
    3: [
        *("collectives", "every_collective", "communicator", "raw"),
        *("bootstrap", "disagreement", "too_long", "malformed"),
    ],
    4: ["collectives", "every_collective", "parts"],
}
"""Programs by their number of ranks. One job runs all of a number, since its start takes longer than they."""


@pytest.mark.parametrize(
    ("ranks", "programs"),
    [
        *(pytest.param(ranks, programs, id=f"{ranks} ranks") for ranks, programs in JOBS.items()),
        *(
            pytest.param(ranks, [waits], id=waits, marks=pytest.mark.slow)
            for waits, ranks in (("silence", 3), ("stall", 4), ("patience", 3), ("in_flight", 3))
        ),
    ],
)
def test_under_mpirun(mpirun: Callable[..., str], ranks: int, programs: list[str]) -> None:
    """An error names its program."""
    said = mpirun(ranks, "-m", "mpi4py", PROGRAM, *programs)
    assert said.splitlines() == [*(f"{name} passed" for name in programs), "done"]


JOB_LIMIT = 60
"""Seconds; far less than a rank waits for another one that is there."""


@pytest.mark.parametrize(
    ("launcher", "end", "said"),
    [
        ([], "raise", "PeerLost: rank 1 gave up: ValueError: no such file"),
        ([], "exit", "PeerLost: rank 1 has ended"),
        ([], "kill", "rank 1 with PID"),
        (["-m", "mpi4py"], "raise", "ValueError: no such file"),
        (["-m", "mpi4py"], "raise in MPI", "ValueError: no such file"),
    ],
)
def test_a_rank_that_ends_early(
    mpi_job: Callable[..., Any], launcher: list[str], end: str, said: str
) -> None:
    """The others end too, soon, and what is said names the rank that was first."""
    done = mpi_job(4, *launcher, PROGRAM, f"failing:{end}", timeout=JOB_LIMIT)
    assert done.returncode != 0
    assert said in done.stderr
    assert "TransportTimeout" not in done.stderr
    blamed = set(re.findall(r"PeerLost: rank (\d+)", done.stderr))
    assert blamed <= {"1"}


@pytest.mark.parametrize("arguments", [[], ["--tcp"], ["--op", "sum", "--bound", "8"]])
def test_example(mpirun: Callable[..., str], arguments: list[str]) -> None:
    out = mpirun(4, "-m", "mpi4py", str(ROOT / "examples" / "allreduce.py"), "--values", "100000", *arguments)
    assert out.startswith("4 ranks, 100000 values each")
    assert "bit-identical at all ranks: yes" in out
    assert "ring, codec" in out
