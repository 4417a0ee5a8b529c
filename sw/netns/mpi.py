# SPDX-License-Identifier: BSD-2-Clause
"""Open MPI over a network of namespaces.

mpirun starts a daemon on every host through an agent, by default ssh. The agent written here enters the
namespace instead. Every rank has its own host name, since Open MPI would otherwise use shared memory between
ranks.
"""

import os
import shlex
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..system.extras import pip_install
from ..system.integers import integer
from ..system.programs import find_program
from .iproute import NetworkUnavailable
from .namespaces import Host, Namespaces


def mpirun(
    network: Namespaces, argv: Sequence[str], *, timeout: float = 300.0, **options: Any
) -> subprocess.CompletedProcess[Any]:
    """Run an MPI program with its ranks distributed over the hosts of a network; wait for its end.

    Options are those of `mpi_popen`, as in ``stdout=subprocess.PIPE``. ``subprocess.TimeoutExpired`` after
    ``timeout`` seconds.
    """
    with mpi_popen(network, argv, **options) as job:
        try:
            output, errors = job.communicate(timeout=timeout)
        except BaseException:
            job.kill()
            raise
    return subprocess.CompletedProcess(job.args, job.returncode, output, errors)


def mpi_popen(
    network: Namespaces,
    argv: Sequence[str],
    *,
    ranks: int | None = None,
    environment: Mapping[str, str] | None = None,
    mca: Mapping[str, str] | None = None,
    **options: Any,
) -> subprocess.Popen[Any]:
    """Start an MPI program with its ranks distributed over the hosts of a network.

    ``argv`` may begin with further options of mpirun, such as its own ``-np``. ``ranks`` is by default the
    number of hosts; more are distributed round robin. Ranks communicate only over TCP, through the network.
    ``environment`` is added to this process's, ``mca`` sets Open MPI's parameters; ``options`` go to
    ``subprocess.Popen``. `NetworkUnavailable` where mpirun is not installed.
    """
    program = find_program("mpirun")
    if program is None:
        raise NetworkUnavailable(f"mpirun is not installed: {pip_install('mpi')}")
    number = network.size if ranks is None else integer("ranks", ranks, 1)
    slots = -(-number // network.size)
    folder = Path(tempfile.mkdtemp(prefix="mpi-", dir=network.folder))  # removed with the network's folder
    # BTL tcp for the data, self for messages to oneself; ob1 because other layers choose other transports.
    settings = {
        "btl": "tcp,self", "pml": "ob1", "btl_tcp_if_include": str(network.subnet),
        "plm_ssh_agent": str(_agent(folder / "agent", network.hosts)), **(mca or {}),
    }  # fmt: skip
    command = [program, "--allow-run-as-root", "--map-by", ":OVERSUBSCRIBE", "--bind-to", "none"]
    command += ["--host", ",".join(f"{host.name}:{slots}" for host in network.hosts)]
    command += [] if ranks is None else ["-np", str(ranks)]  # by default, one for each slot
    for name, value in settings.items():
        command += ["--mca", name, value]
    variables = {**os.environ, "TMPDIR": str(folder), **(environment or {})}
    return network.hosts[0].popen([*command, *argv], env=variables, **options)


def _agent(path: Path, hosts: Sequence[Host]) -> Path:
    """Write the program that replaces ssh: ``agent HOST COMMAND...``."""
    cases = "\n".join(
        f'{host.name}) set -- {shlex.join(host.command(["sh", "-c"]))} "$*" ;;' for host in hosts
    )
    lines = ["#!/bin/sh", "host=$1", "shift", 'case "$host" in', cases]
    path.write_text("\n".join([*lines, '*) echo "no host $host" >&2; exit 1 ;;', "esac", 'exec "$@"', ""]))
    path.chmod(0o700)
    return path
