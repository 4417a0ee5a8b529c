# SPDX-License-Identifier: BSD-2-Clause
"""The user's program on a cluster: one process per host, or mpirun on the first host."""

import os
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any

from inceptionn.netns import Host, mpi_popen
from inceptionn.netns.namespaces import Namespaces

RENDEZVOUS_PORT = 29520
"""Rank 0's port, the default of the host library."""
TORCH_PORT = 29500
"""Rank 0's port for torch.distributed, which must differ from the host library's."""
_GRACE = 5.0
"""Seconds that the other hosts' processes get to end on their own after one has failed."""
_LAUNCHERS = ("mpirun", "mpiexec")

Line = Callable[[str, bytes], None]
"""Called with the source of a line of output ("host2", or "" for mpirun) and the line with its newline."""


def is_launcher(argv: Sequence[str]) -> bool:
    """Tell whether the program is mpirun, which starts the processes on all hosts itself."""
    return Path(argv[0]).name in _LAUNCHERS


def environment(hosts: Sequence[Host], rank: int) -> dict[str, str]:
    """Return the variables that a program gets in addition to this process's environment.

    ``docs/cluster.md`` lists them.
    """
    first = hosts[0].address
    return {
        "INCEPTIONN_RANK": str(rank),
        "INCEPTIONN_SIZE": str(len(hosts)),
        "INCEPTIONN_ADDRESS": hosts[rank].address,
        "INCEPTIONN_ADDRESSES": ",".join(host.address for host in hosts),
        "INCEPTIONN_RENDEZVOUS": f"{first}:{RENDEZVOUS_PORT}",
        "RANK": str(rank),
        "LOCAL_RANK": "0",
        "WORLD_SIZE": str(len(hosts)),
        "MASTER_ADDR": first,
        "MASTER_PORT": str(TORCH_PORT),
        "GLOO_SOCKET_IFNAME": "eth0",
        "PYTHONUNBUFFERED": "1",
    }


class Program:
    """Runs ``argv`` on every host of a cluster. If it is mpirun, runs it once, on the first host.

    ``line`` is called with every line of output, from threads. Without it the processes share this process's
    output. Call `wait` until it returns the exit status.
    """

    def __init__(self, cluster: Namespaces, argv: Sequence[str], line: Line | None = None) -> None:
        self._threads: list[threading.Thread] = []
        self._failed_at: float | None = None
        self._first = 0
        """Status of the first process that failed."""
        self.status: int | None = None
        options: dict[str, Any] = {"stdin": subprocess.DEVNULL}
        if line is not None:
            options |= {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        self.processes: list[subprocess.Popen[bytes]] = []
        if is_launcher(argv):
            self.processes.append(mpi_popen(cluster, argv[1:], **options))
            names = [""]
        else:
            for host in cluster.hosts:
                variables = {**os.environ, **environment(cluster.hosts, host.index)}
                self.processes.append(host.popen(argv, env=variables, **options))
            names = [f"host{host.index}" for host in cluster.hosts]
        if line is None:
            return
        for name, process in zip(names, self.processes, strict=True):
            assert process.stdout is not None
            thread = threading.Thread(target=_relay, args=(process.stdout, name, line), daemon=True)
            thread.start()
            self._threads.append(thread)

    def wait(self, seconds: float) -> int | None:
        """Wait at most ``seconds``. Return the exit status if all processes have ended, else None.

        The status is that of the first process that failed, or 128 plus the signal's number if a signal ended
        it. The other processes are terminated five seconds after a failure.
        """
        deadline = time.monotonic() + seconds
        while (status := self._ended()) is None and time.monotonic() < deadline:
            time.sleep(0.02)
        if status is None:
            return None
        for thread in self._threads:
            thread.join(1)  # a child that still runs may hold the pipe open
        return status

    def _ended(self) -> int | None:
        if self.status is not None:
            return self.status
        codes = [process.poll() for process in self.processes]
        now = time.monotonic()
        failed = [code for code in codes if code]
        if failed and self._failed_at is None:
            self._failed_at = now
            self._first = failed[0]
        if None in codes:
            if self._failed_at is not None and now - self._failed_at > _GRACE:
                self.stop()
            return None
        status = self._first if self._failed_at is not None else 0
        self.status = status if status >= 0 else 128 - status
        return self.status

    def stop(self) -> None:
        """Ask all processes to end, with SIGTERM."""
        for process in self.processes:
            if process.poll() is None:
                process.terminate()


def _relay(stream: IO[bytes], name: str, line: Line) -> None:
    with stream:
        for text in stream:
            line(name, text)
