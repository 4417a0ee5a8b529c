# SPDX-License-Identifier: BSD-2-Clause
"""Programs that a test runs to their end."""

import os
import subprocess
from pathlib import Path


def said_by(*command: object, cwd: Path | str | None = None, timeout: float = 600, **environment: str) -> str:
    """Standard output of a program, which must succeed; ``environment`` is added to this process's own."""
    done = subprocess.run(
        list(map(str, command)), env=os.environ | environment, cwd=cwd, timeout=timeout,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout
