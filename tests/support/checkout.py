# SPDX-License-Identifier: BSD-2-Clause
"""What the checkout holds."""

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("sw", "hdl", "sim", "boards", "constraints")
"""Folders that are installed."""


def source_files() -> list[Path]:
    """Files of the checkout, relative, without what git ignores; all package files where there is no git."""
    try:
        listing = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT, capture_output=True, check=True,
        ).stdout  # fmt: skip
        names = [Path(os.fsdecode(name)) for name in listing.split(b"\0") if name]
    except (OSError, subprocess.CalledProcessError):
        names = [path.relative_to(ROOT) for path in ROOT.iterdir()]
        names += [path.relative_to(ROOT) for folder in PACKAGES for path in (ROOT / folder).rglob("*")]
    return [name for name in names if (ROOT / name).is_file()]
