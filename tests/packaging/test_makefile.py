# SPDX-License-Identifier: BSD-2-Clause
"""What ``make`` installs for the tests: a torch without CUDA where there is one, and else it says so."""

from pathlib import Path

import pytest
from checkout import ROOT
from programs import ended

PYTHON = """#!/bin/sh
# Records pip's arguments; torch is there, or found where WHERE says, or not at all.
case "$*" in
    *find_spec*) test "$WHERE" = here ;;
    *--extra-index-url*torch==*) echo "$*" >>"$LOG"; test "$WHERE" = index ;;
    *torch==*) echo "$*" >>"$LOG"; test "$WHERE" = configured ;;
esac
"""


@pytest.mark.parametrize(
    ("where", "tried", "ci", "status"),
    [
        ("here", 0, "", 0),
        ("configured", 1, "", 0),
        ("index", 2, "true", 0),
        ("none", 2, "", 0),
        ("none", 2, "true", 2),
    ],
)
def test_the_tests_get_a_torch_or_say_that_there_is_none(
    where: str, tried: int, ci: str, status: int, tmp_path: Path
) -> None:
    python, log = tmp_path / "bin" / "python", tmp_path / "log"
    python.parent.mkdir()
    python.write_text(PYTHON)
    python.chmod(0o755)
    log.touch()
    stamp = tmp_path / ".stamp-dev"
    done = ended("make", "-C", ROOT, f"VENV={tmp_path}", stamp, timeout=60, WHERE=where, LOG=str(log), CI=ci)
    assert done.returncode == status, done.stderr
    assert len(log.read_text().splitlines()) == tried
    assert stamp.exists() == (status == 0)  # the other tests run
    assert ("the tests of inceptionn.torch are skipped" in done.stderr) == (where == "none")
