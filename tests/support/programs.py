# SPDX-License-Identifier: BSD-2-Clause
"""Programs that a test runs to their end, and ranks that are processes."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def ended(
    *command: object, cwd: Path | str | None = None, timeout: float = 600, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, with ``environment`` added to this process's own."""
    return subprocess.run(
        list(map(str, command)), env=os.environ | environment, cwd=cwd, timeout=timeout,
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def said_by(*command: object, cwd: Path | str | None = None, timeout: float = 600, **environment: str) -> str:
    """Return the standard output of a program, which must succeed; run as by `ended`."""
    done = ended(*command, cwd=cwd, timeout=timeout, **environment)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


def runs(pid: int | str) -> bool:
    """Tell whether a process runs. A zombie, which has ended and waits for its parent, does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


@contextmanager
def ranks(
    program: Path,
    count: int,
    *arguments: object,
    first: str | None = None,
    stderr: int | None = None,
    stdin: int | None = None,
) -> Iterator[list[subprocess.Popen[str]]]:
    """Yield processes of a program whose first argument is the rank; kill all in the end.

    ``first``: the line that each has printed when the context begins.
    """
    started = [
        subprocess.Popen(
            [sys.executable, *map(str, (program, rank, *arguments))], stdout=subprocess.PIPE, stderr=stderr,
            stdin=stdin, text=True, env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
        )
        for rank in range(count)
    ]  # fmt: skip
    try:
        for rank in started if first else ():
            assert rank.stdout is not None
            assert rank.stdout.readline() == first
        yield started
    finally:
        for rank in started:
            rank.kill()
            rank.communicate()
