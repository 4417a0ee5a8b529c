# SPDX-License-Identifier: BSD-2-Clause
"""The start, the reports and the end of a bench's rank.

It is called as ``python -m inceptionn.evaluate.bench.ROOM.NAME_rank PLAN [RANK]``.

PLAN is a JSON file that `job.lines_of` writes. Without RANK the program runs under MPI, which knows the rank.
"""

import json
import os
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from ....transport import Transport, connect

Plan = dict[str, Any]


def mpi_world() -> Any:
    """Return MPI's communicator of all ranks; None where the command line gives the rank."""
    return None if len(sys.argv) > 2 else import_module("mpi4py.MPI").COMM_WORLD


def report(transport: Transport, line: Mapping[str, Any]) -> None:
    """Print a line of JSON, at rank 0 only."""
    if transport.rank == 0:
        print(json.dumps(line), flush=True)


def run(program: Callable[[Transport, Plan], None]) -> None:
    """Run a rank's program with its transport and the plan; an error ends the process with status 1."""
    try:
        plan: Plan = json.loads(Path(sys.argv[1]).read_text())
        world = mpi_world()
        rank = int(sys.argv[2]) if world is None else world.Get_rank()
        hosts, port = plan["addresses"], plan["port"]
        with connect(
            rank, len(hosts), f"{hosts[0]}:{port}", host=hosts[rank], nic=False, timeout=plan["timeout"]
        ) as transport:
            program(transport, plan)
    except BaseException as error:
        # A rank that fails must end its MPI job: at exit, MPI would wait for the other ranks.
        print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
        os._exit(1)
