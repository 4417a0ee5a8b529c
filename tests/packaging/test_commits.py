# SPDX-License-Identifier: BSD-2-Clause
"""Subjects of commits, as CONTRIBUTING.md asks for them."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SINCE = "2026-11-25T21:30:00Z"
"""Earlier ones were not checked."""
SUBJECT = re.compile(r"(hdl|sim|sw|boards|tests|docs|examples|ci|Merge|Revert)\b[^;]*")


def test_subjects() -> None:
    """At most 72 characters, with the package first, and one idea."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a clone")
    command = ["git", "log", f"--since={SINCE}", "--format=%h %s"]
    log = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    commits = [line.partition(" ") for line in log.splitlines()]
    assert [(h, s) for h, _, s in commits if len(s) > 72 or not SUBJECT.fullmatch(s)] == []
