# SPDX-License-Identifier: BSD-2-Clause
"""The command that runs the suite beside a load sees what fails, and names it; the load ends with it."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from programs import runs

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


def test_a_process_that_nobody_has_waited_for_does_not_run() -> None:
    """It stays in /proc until its parent, or init in the place of one that has ended, sees to it."""
    with subprocess.Popen(["sleep", "60"]) as child:
        assert runs(child.pid)
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert Path(f"/proc/{child.pid}").exists()
        assert not runs(child.pid)
    assert not runs(child.pid)


def test_the_load_ends_with_the_command(tmp_path: Path) -> None:
    """Else processes that count would go on for ever, after a time limit of a shell or of CI."""
    tests = tmp_path / "test_long.py"
    tests.write_text("def test_long():\n    import time\n    time.sleep(600)\n")
    options = ["--runs", "1", "--load", "1", "--jobs", "1", "--", str(tests)]
    with subprocess.Popen(
        [*COMMAND, *options], stdout=subprocess.DEVNULL, env=os.environ | {"INCEPTIONN_BUILD": str(tmp_path)}
    ) as command:
        children, until = [], time.monotonic() + 60
        while len(children) < 2 and time.monotonic() < until:
            time.sleep(0.1)
            children = Path(f"/proc/{command.pid}/task/{command.pid}/children").read_text().split()
        command.send_signal(signal.SIGTERM)
        assert command.wait(120) == 1  # it gives its runs 60 s
    assert len(children) == 2
    assert not any(map(runs, children))
