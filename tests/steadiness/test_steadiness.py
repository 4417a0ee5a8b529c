# SPDX-License-Identifier: BSD-2-Clause
"""The command that runs the suite beside a load sees what fails, and names it."""

import os
import subprocess
import sys
from pathlib import Path

COMMAND = [sys.executable, str(Path(__file__).with_name("steadiness.py"))]
SUITE = """
def test_good(): pass
def test_bad(): assert False
"""


def test_failures_are_named(tmp_path: Path) -> None:
    tests = tmp_path / "test_few.py"
    tests.write_text(SUITE)
    options = ["--runs", "1", "--load", "0", "--jobs", "1", "--", str(tests)]
    done = subprocess.run(
        [*COMMAND, *options], capture_output=True, text=True, timeout=300, check=False,
        env=os.environ | {"INCEPTIONN_BUILD": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert "1 passed, 0 skipped, 1 failed" in done.stdout
    assert "test_few::test_bad" in done.stdout
    assert "0 of 1 runs without a failure" in done.stdout
