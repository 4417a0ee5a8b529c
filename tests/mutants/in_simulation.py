# SPDX-License-Identifier: BSD-2-Clause
"""Runs a bench on many mutants from one start of its simulation, which takes longer than most runs.

cocotb calls :func:`fork_for_all` before the first time step, once design, bench and all that it imports are
loaded. Each mutant gets a copy of this process.
"""

import os
import resource
import signal
import sys
from importlib import import_module
from math import inf
from pathlib import Path
from time import monotonic

ENTRY_POINTS = (
    "cocotb.logging:_configure,cocotb._init:init_package_from_simulation,"
    "in_simulation:fork_for_all,cocotb.regression:_run_regression"
)
"""cocotb's own, with this one before the last: ``$PYGPI_USERS``."""


def plan(folder: Path, numbers: list[int], jobs: int, seconds: int) -> dict[str, str]:
    """Return the environment that makes a simulation run mutants ``numbers``.

    Outcomes are ``folder / "N.xml"``. After so many seconds (0: never) no other mutant begins.
    """
    listed = ",".join(map(str, numbers))
    return {
        "PYGPI_USERS": ENTRY_POINTS,
        "COCOTB_MAX_FAILURES": "1",
        "MUTANTS": listed, "MUTANTS_FOLDER": str(folder), "MUTANTS_JOBS": str(jobs),
        "MUTANTS_SECONDS": str(seconds),
    }  # fmt: skip


def fork_for_all() -> None:
    """Return in each copy, with its mutant selected; the first process ends when all have.

    The design without a mutant goes first. The others get three times its processor time, and five seconds.
    """
    import_module(os.environ["COCOTB_TEST_MODULES"])
    folder, jobs = Path(os.environ["MUTANTS_FOLDER"]), int(os.environ["MUTANTS_JOBS"])
    limit_s, running, end = 0, {}, inf
    for number in [0, *map(int, os.environ["MUTANTS"].split(","))]:
        if monotonic() > end:
            break
        child = os.fork()
        if child == 0:
            return become(number, folder, limit_s)
        running[child] = number
        if number == 0:
            limit_s = 3 * int(end_of(running, folder)) + 5
            end = monotonic() + (int(os.environ["MUTANTS_SECONDS"]) or inf)
        elif len(running) == jobs:
            end_of(running, folder)
    while running:
        end_of(running, folder)
    os._exit(0)


def become(number: int, folder: Path, limit_s: int) -> None:
    """Select a mutant in this process; its outcome goes to ``N.part`` of the folder."""
    import cocotb
    from cocotb.types import LogicArray

    os.environ["COCOTB_RESULTS_FILE"] = str(folder / f"{number}.part")
    # The simulator's own end would wait for threads that no copy has.
    cocotb._shutdown.register(lambda: os._exit(0))
    if limit_s:
        # The softer limit ends it with a signal of its own.
        resource.setrlimit(resource.RLIMIT_CPU, (limit_s, limit_s + 5))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    cocotb.top.mutant.set(cocotb.handle.Immediate(LogicArray.from_unsigned(number, 16)))


def end_of(running: dict[int, int], folder: Path) -> float:
    """Wait for one copy, and complete its outcome: ``N.xml``; its processor time.

    That is pytest's report, or what ended the simulation before it wrote one: ``time``, or its status. A
    copy that was killed from outside has no outcome.
    """
    child, status, usage = os.wait4(-1, 0)
    number, code = running.pop(child), os.waitstatus_to_exitcode(status)
    part = folder / f"{number}.part"
    if code == -signal.SIGKILL:
        print(
            f"mutant {number}: its simulation was killed from outside, for want of memory?", file=sys.stderr
        )
        part.unlink(missing_ok=True)
    else:
        if code == -signal.SIGXCPU:
            part.write_text("time")
        elif not part.exists() or "<testcase" not in part.read_text():
            part.write_text(f"status {code}")
        part.rename(part.with_suffix(".xml"))
    return usage.ru_utime + usage.ru_stime
