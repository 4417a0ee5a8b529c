# SPDX-License-Identifier: BSD-2-Clause
"""Real MPI processes, and the README's example."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def mpirun(ranks: int, *command: str, timeout: float = 120) -> str:
    """Output of a Python program under mpirun; a skip, or a failure under CI, where there is no MPI."""
    program = shutil.which("mpirun", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if program is None or find_spec("mpi4py") is None:
        if os.environ.get("CI"):
            pytest.fail("mpirun and mpi4py are needed: pip install 'inceptionn[mpi]'")
        pytest.skip("no MPI here: pip install 'inceptionn[mpi]'")
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    done = subprocess.run(
        [program, *root, "--oversubscribe", "-np", str(ranks), sys.executable, *command],
        capture_output=True, text=True, timeout=timeout, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("function", "ranks"),
    [
        ("collectives", 4), ("collectives", 3), ("communicator", 3), ("bootstrap", 3), ("disagreement", 3),
        ("silence", 3), ("too_long", 3), ("collectives", 1),
    ],
)  # fmt: skip
def test_under_mpirun(function: str, ranks: int) -> None:
    assert mpirun(ranks, str(Path(__file__).with_name("mpi_program.py")), function) == "done\n"


@pytest.mark.parametrize("arguments", [[], ["--tcp"], ["--op", "sum", "--bound", "8"]])
def test_example(arguments: list[str]) -> None:
    out = mpirun(4, str(ROOT / "examples" / "allreduce.py"), "--values", "100000", *arguments)
    assert out.startswith("4 ranks, 100000 values each")
    assert "bit-identical at all ranks: yes" in out
    assert "ring, codec" in out
