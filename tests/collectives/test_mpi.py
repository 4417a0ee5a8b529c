# SPDX-License-Identifier: BSD-2-Clause
"""Real MPI processes, and the README's example."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("function", "ranks"),
    [
        ("collectives", 4), ("collectives", 3), ("communicator", 3), ("bootstrap", 3), ("disagreement", 3),
        ("silence", 3), ("too_long", 3), ("collectives", 1),
    ],
)  # fmt: skip
def test_under_mpirun(mpirun: Callable[..., str], function: str, ranks: int) -> None:
    assert mpirun(ranks, str(Path(__file__).with_name("mpi_program.py")), function) == "done\n"


@pytest.mark.parametrize("arguments", [[], ["--tcp"], ["--op", "sum", "--bound", "8"]])
def test_example(mpirun: Callable[..., str], arguments: list[str]) -> None:
    out = mpirun(4, str(ROOT / "examples" / "allreduce.py"), "--values", "100000", *arguments)
    assert out.startswith("4 ranks, 100000 values each")
    assert "bit-identical at all ranks: yes" in out
    assert "ring, codec" in out
