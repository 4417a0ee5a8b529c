# SPDX-License-Identifier: BSD-2-Clause
"""Runs all tests but the slow ones again and again, with a load beside them: ``make steadiness``.

A test that fails now and then waits for luck. The load is processes that count (``--load``), and other runs
of the suite (``--at-once``), which also compete for ports, namespaces, files and locks. Reports and output of
each run stay in ``build/steadiness``, by time. Exits with 1 if a test failed. Ctrl-C or SIGTERM ends all.
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "prove"))
import page  # noqa: E402
import records  # noqa: E402

BUILD = Path(os.environ.get("INCEPTIONN_BUILD", ROOT / "build")).resolve() / "steadiness"
SUITE = [sys.executable, "-m", "pytest", "--dist", "worksteal", "-m", "not slow", "-p", "no:cacheprovider"]
LOAD_EVERY_S = 10
"""How often the load of the machine is asked for, in seconds."""


def commit() -> str:
    """Return the commit, with "+" if tracked files have changed since."""
    git = ["git", "-C", str(ROOT)]
    name = subprocess.run(
        [*git, "rev-parse", "--short=8", "HEAD"], capture_output=True, text=True, check=True
    )
    changed = subprocess.run([*git, "diff", "--quiet", "HEAD"], check=False).returncode
    return name.stdout.strip() + ("+" if changed else "")


def result_of(report: Path, status: int) -> dict[str, Any]:
    """Return what a run's report says: how many tests passed and were skipped, names of those that failed.

    A run that wrote none, or failed with no failing test, failed as a whole.
    """
    cases = list(ElementTree.parse(report).iter("testcase")) if report.exists() else []
    failed = [
        f"{case.get('classname')}::{case.get('name')}"
        for case in cases
        if case.find("failure") is not None or case.find("error") is not None
    ]
    skipped = sum(case.find("skipped") is not None for case in cases)
    if status and not failed:
        failed = [f"the run itself, with status {status}"]
    return {"passed": max(0, len(cases) - skipped - len(failed)), "skipped": skipped, "failed": failed}


class Started:
    """A run of the suite, or a process of the load, in a session of its own."""

    def __init__(self, command: list[str], output: Path | None = None, **environment: str) -> None:
        self._file = output.open("wb") if output else subprocess.DEVNULL
        self.process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=self._file, stderr=subprocess.STDOUT,
            start_new_session=True, env=os.environ | environment,
        )  # fmt: skip

    def end(self, patience: float) -> None:
        """Interrupt it, so that tests clean up; kill what is left after ``patience`` seconds."""
        for number, wait_s in ((signal.SIGINT, patience), (signal.SIGKILL, None)):
            if self.process.poll() is None:
                os.killpg(self.process.pid, number)
                try:
                    self.process.wait(wait_s)
                except subprocess.TimeoutExpired:
                    continue
        if not isinstance(self._file, int):
            self._file.close()


def batch(
    numbers: list[int], jobs: int, load: int, folder: Path, arguments: list[str]
) -> list[dict[str, Any]]:
    """Run the suite as often as there are numbers, all at once; a result for each."""
    busy: list[Started] = []
    runs: list[Started] = []
    begun, loads = time.monotonic(), [os.getloadavg()[0]]
    results: dict[int, dict[str, Any]] = {}
    try:
        busy += (Started([sys.executable, "-c", "while True: pass"]) for _ in range(load))
        for number in numbers:
            report = f"--junitxml={folder / f'{number}.xml'}"
            # What a run builds, it builds itself: the others must not spare it the load.
            build = {"INCEPTIONN_BUILD": str(folder / f"{number}-build")}
            command = [*SUITE, "-n", str(jobs), report, *arguments]
            runs.append(Started(command, folder / f"{number}.log", **build))
        while len(results) < len(runs):
            time.sleep(min(LOAD_EVERY_S, 1 + time.monotonic() - begun))
            loads.append(os.getloadavg()[0])
            for number, run in zip(numbers, runs, strict=True):
                status = run.process.poll()
                if number in results or status is None:
                    continue
                minutes = (time.monotonic() - begun) / 60
                one = result_of(folder / f"{number}.xml", status) | {"minutes": round(minutes, 1)}
                results[number] = one
                counts = f"{one['passed']} passed, {one['skipped']} skipped, {len(one['failed'])} failed"
                load_here = sum(loads) / len(loads)
                print(
                    f"run {number}: {counts} in {minutes:.0f} min at load {load_here:.1f}",
                    *one["failed"],
                    sep="\n  ",
                    flush=True,
                )
    finally:
        for process in busy:
            process.end(0)
        for run in runs:
            run.end(60)
        for number in numbers:
            shutil.rmtree(folder / f"{number}-build", ignore_errors=True)
    mean = round(sum(loads) / len(loads), 1)
    return [results[number] | {"load": mean} for number in numbers]


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--runs", type=int, default=20, help="how often (20)")
    parser.add_argument("--at-once", type=int, default=1, help="runs at a time (1)")
    parser.add_argument("--load", type=int, default=8, help="processes that count beside them (8)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="tests at a time, in each")
    parser.add_argument("--record", action="store_true", help="add the runs to docs/assurance*")
    parser.add_argument("arguments", nargs="*", help="for pytest, behind --")
    options = parser.parse_args()
    if min(options.runs, options.at_once, options.jobs) < 1 or options.load < 0:
        parser.error("--runs, --at-once and --jobs must be at least 1, and --load at least 0")
    folder = BUILD / time.strftime("%Y%m%d-%H%M%S")
    folder.mkdir(parents=True)
    here, bad = commit(), 0
    print(f"{options.runs} runs of the suite at {here}; output in {folder}", flush=True)
    for first in range(1, options.runs + 1, options.at_once):
        numbers = list(range(first, min(first + options.at_once, options.runs + 1)))
        for one in batch(numbers, options.jobs, options.load, folder, options.arguments):
            bad += bool(one["failed"])
            if options.record and not options.arguments:
                row = {"commit": here, "processors": os.cpu_count(), **one}
                records.save("steadiness", [*records.load("steadiness"), row])
                page.main()
    print(f"{options.runs - bad} of {options.runs} runs without a failure")
    return int(bad > 0)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background commands ignore it
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("interrupted")
