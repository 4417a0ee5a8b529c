# SPDX-License-Identifier: BSD-2-Clause
"""What a change is: files that differ from the commit that it began at, and whether circuits need them."""

import os
import subprocess
from collections.abc import Iterable
from pathlib import Path

from checkout import ROOT

CIRCUITS = ("boards", "corundum", "hdl", "prove", "sim")
"""Folders of tests, whose slow ones simulate and prove circuits."""
_SOFTWARE = ("collectives", "evaluate", "layers", "tos", "torch", "transport")
"""Packages that circuits do not import (tests/packaging/test_imports.py)."""
APART = (
    *(f"{folder}/{name}/" for folder in ("sw", "tests") for name in _SOFTWARE),
    *(f"tests/{name}/" for name in ("cli", "codec", "docs", "netns", "packaging")),
    *("docs/", "CHANGELOG.md", "CONTRIBUTING.md", "README.md"),
)
"""What neither circuits nor their slow tests read; all else counts."""
_READ = "docs/assurance"
"""What they do read of the pages."""
_DAY = 24 * 60 * 60


def _git(*words: str, root: Path) -> str | None:
    """Return what git prints, None if it fails."""
    try:
        done = subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def base(root: Path = ROOT) -> str | None:
    """Return the commit that the change began at, or nothing if git knows none.

    That is ``$BASE``, if it is set: what a push to main replaced. Else, on a branch, it is where the branch
    left main; on main, the last commit that is a day older than the newest, since many come together.
    """
    head = _git("rev-parse", "HEAD", root=root)
    if named := os.environ.get("BASE"):
        return _git("rev-parse", "--verify", f"{named}^{{commit}}", root=root)
    for main in ("origin/main", "main"):
        left = _git("merge-base", "HEAD", main, root=root)
        if left and left != head:
            return left
    newest = _git("log", "-1", "--format=%ct", root=root)
    return newest and _git("rev-list", "-1", f"--before={int(newest) - _DAY}", "HEAD", root=root)


def changed(root: Path = ROOT) -> set[str] | None:
    """Return the files that differ from `base`, new ones too; None if git cannot tell."""
    begin = base(root)
    differ = _git("diff", "--name-only", "--no-renames", begin, root=root) if begin else None
    new = _git("ls-files", "--others", "--exclude-standard", root=root)
    return None if differ is None or new is None else {*differ.splitlines(), *new.splitlines()}


def reach_circuits(names: Iterable[str] | None) -> bool:
    """Tell whether one of these files may matter to slow tests of circuits. Files that are not known do."""
    return names is None or any(not name.startswith(APART) or name.startswith(_READ) for name in names)
