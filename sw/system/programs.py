# SPDX-License-Identifier: BSD-2-Clause
"""Finds the programs that the package's dependencies install: yosys, nextpnr, mpirun, fusesoc.

And the processors that they may use.
"""

import os
import shutil
import sys
import sysconfig

MOST_THREADS = 4096
"""Threads that a native function takes."""


def find_program(name: str) -> str | None:
    """Find a program: next to this interpreter if it is there, else on PATH; None if in neither.

    So an environment's programs are found even if its folder is not on PATH, and before others of the same
    name.
    """
    beside = (sysconfig.get_path("scripts"), os.path.dirname(sys.executable))
    return shutil.which(name, path=os.pathsep.join(beside)) or shutil.which(name)


def usable_processors() -> int:
    """Count the processors that this process may use. With ``taskset`` they are fewer than the host has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
