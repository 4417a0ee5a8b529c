# SPDX-License-Identifier: BSD-2-Clause
"""The start, the reports and the end of a bench's rank: ``python -m inceptionn.evaluate.bench.common.rank``.

Arguments: module:function, which runs; the plan, a JSON file of `job.lines_of`; the rank, except under MPI.
"""

import json
import os
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from ....transport import Transport, connect

Plan = dict[str, Any]


def mpi_world() -> Any:
    """Return MPI's communicator of all ranks; None where the command line gives the rank."""
    return None if len(sys.argv) > 3 else import_module("mpi4py.MPI").COMM_WORLD


def tell(transport: Transport, line: Mapping[str, Any]) -> None:
    """Print a line of JSON, at rank 0 only."""
    if transport.rank == 0:
        print(json.dumps(line), flush=True)


def run(program: str, path: str) -> None:
    """Run a rank's program with its transport and the plan; an error ends the process with status 1."""
    try:
        module, _, name = program.partition(":")
        work, plan = getattr(import_module(module), name), json.loads(Path(path).read_text())
        world = mpi_world()
        rank = int(sys.argv[3]) if world is None else world.Get_rank()
        hosts, port = plan["addresses"], plan["port"]
        with connect(
            rank, len(hosts), f"{hosts[0]}:{port}", host=hosts[rank], nic=False, timeout=plan["timeout"]
        ) as transport:
            work(transport, plan)
    except BaseException as error:
        # A rank that fails must end its MPI job: at exit, MPI would wait for the other ranks.
        print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
        os._exit(1)


if __name__ == "__main__":
    run(*sys.argv[1:3])
