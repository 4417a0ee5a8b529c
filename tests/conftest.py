# SPDX-License-Identifier: BSD-2-Clause
"""What all tests share: a missing tool is a skip for a user and a failure under continuous integration."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Generator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest


def _tool_missing() -> tuple[type[Exception], ...]:
    """The exceptions that say so; the simulation package's only where that is installed."""
    from inceptionn.netns import NetworkUnavailable

    try:
        from inceptionn.sim.runner import ToolMissing
    except ImportError:
        return (NetworkUnavailable,)
    return ToolMissing, NetworkUnavailable


def _or_skip() -> Generator[None, Any, Any]:
    try:
        return (yield)
    except Exception as error:
        if isinstance(error, _tool_missing()) and not os.environ.get("CI"):
            pytest.skip(str(error))
        raise


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, Any, Any]:
    return (yield from _or_skip())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    return (yield from _or_skip())


@pytest.fixture
def mpirun() -> Callable[..., str]:
    """``mpirun(ranks, program, *arguments, timeout=120)``: the output of a Python program under mpirun.

    A skip, or a failure under CI, where there is no MPI. The test fails if the program does.
    """
    program = shutil.which("mpirun", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if program is None or find_spec("mpi4py") is None:
        if os.environ.get("CI"):
            pytest.fail("mpirun and mpi4py are needed: pip install 'inceptionn[mpi]'")
        pytest.skip("no MPI here: pip install 'inceptionn[mpi]'")
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []

    def run(ranks: int, *command: str, timeout: float = 120) -> str:
        done = subprocess.run(
            [program, *root, "--oversubscribe", "-np", str(ranks), sys.executable, *command],
            capture_output=True, text=True, timeout=timeout, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run
