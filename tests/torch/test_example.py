# SPDX-License-Identifier: BSD-2-Clause
"""One example program, started by torchrun, by mpirun and by nothing."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from programs import said_by

from inceptionn.netns import require
from inceptionn.netns.tap import available
from inceptionn.transport import from_environment

EXAMPLE = str(Path(__file__).parents[2] / "examples" / "train.py")
ARGUMENTS = [EXAMPLE, "--steps", "5"]


def trained_by(*command: str) -> str:
    return said_by(sys.executable, *command, *ARGUMENTS, timeout=240, OMP_NUM_THREADS="1")


def test_by_torchrun() -> None:
    said = trained_by("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    assert said.count("accuracy on the test set") == 1


@pytest.mark.slow
def test_by_mpirun(mpirun: Callable[..., str]) -> None:
    assert mpirun(2, "-m", "mpi4py", *ARGUMENTS).count("accuracy on the test set") == 1


@pytest.mark.slow
def test_by_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "INCEPTIONN_RANK", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK"):
        monkeypatch.delenv(name, raising=False)
    with from_environment() as transport:
        assert transport.size == 1
    assert "accuracy on the test set" in trained_by()


@pytest.mark.slow
def test_by_the_virtual_cluster() -> None:
    require()
    available()
    argv = ["cluster", "run", "-n", "2", "--nic", "golden", "--", sys.executable, *ARGUMENTS]
    said = said_by(sys.executable, "-m", "inceptionn.cli", *argv, timeout=240)
    assert "NICs, bound 0.000976562" in said
    assert said.count("accuracy on the test set") == 1
