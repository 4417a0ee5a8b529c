# SPDX-License-Identifier: BSD-2-Clause
"""Programs of several torch processes, which leave what they found in a file each."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

Found = list[dict[str, Any]]
HERE = Path(__file__).parent
PROGRAMS = HERE / "ranks"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All tests here need torch: a skip, or a failure under CI, without it."""
    if find_spec("torch") is None:
        for item in items:
            if HERE in item.path.parents and not os.environ.get("CI"):
                item.add_marker(pytest.mark.skip(reason="no torch here: pip install 'inceptionn[torch]'"))


def environment(folder: Path) -> dict[str, str]:
    """One thread each, since the ranks share the processors; where to leave what was found."""
    return {**os.environ, "OMP_NUM_THREADS": "1", "REPORT": str(folder), "PYTHONWARNINGS": "default"}


def found(folder: Path, ranks: int, text: str) -> Found:
    """What each rank left; the test fails with what they said if one left nothing."""
    files = [folder / f"{rank}.json" for rank in range(ranks)]
    assert all(file.exists() for file in files), text
    return [json.loads(file.read_text()) for file in files]


@pytest.fixture(scope="session")
def torchrun(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Found]:
    """``torchrun(ranks, program, *arguments, timeout=240)``: what each rank of a program here has found."""

    def run(ranks: int, program: str, *arguments: str, timeout: float = 240) -> Found:
        folder = tmp_path_factory.mktemp("ranks")
        started = subprocess.Popen(
            [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks),
             str(PROGRAMS / program), *arguments],
            env=environment(folder), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        try:
            said, _ = started.communicate(timeout=timeout)
        except BaseException:
            started.terminate()  # killed, it would leave its ranks, which wait for its store
            started.communicate()
            raise
        assert started.returncode == 0, said
        return found(folder, ranks, said)

    return run


@pytest.fixture
def survivors(tmp_path: Path, port: int) -> Callable[..., Found]:
    """``survivors(ranks, victim, program, *arguments, own=())``: what the ranks but the victim have found.

    ``own`` holds further environment variables for each rank. Not by torchrun, which ends all ranks where
    one has died.
    """

    def run(
        ranks: int, victim: int | None, program: str, *arguments: str, own: Sequence[dict[str, str]] = ()
    ) -> Found:
        group = {"WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        others = [rank for rank in range(ranks) if rank != victim]
        started = [
            subprocess.Popen(
                [sys.executable, str(PROGRAMS / program), *arguments],
                env={**environment(tmp_path), **group, "RANK": str(rank), **(own[rank] if own else {})},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )  # fmt: skip
            for rank in range(ranks)
        ]
        try:
            for rank in others:
                out, _ = started[rank].communicate(timeout=120)
                assert started[rank].returncode == 0, out
        finally:
            for process in started:
                process.kill()
                process.communicate()
        return [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in others]

    return run
