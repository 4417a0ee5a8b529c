# SPDX-License-Identifier: BSD-2-Clause
"""Hosts that are network namespaces: made, used and removed; other classes join them.

`Network` joins them by veth pairs and a bridge; another may put other devices into them.
"""

import atexit
import ipaddress
import os
import secrets
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from ..system.integers import integer
from ..system.signals import unwind_on_signals
from . import registry
from .iproute import NetworkError, ip, require, tool

MOST_HOSTS = 64
_ENTER = (
    'echo "$0" >/proc/sys/kernel/hostname || exit 1; '
    '[ ! -e /etc/hosts ] || mount --bind "$1" /etc/hosts || exit 1; shift; exec "$@"'
)
"""Run in a UTS and mount namespace of its own: a host name, and /etc/hosts with the names of all hosts."""


class Host:
    """One host: a namespace with a name and an address.

    Attributes: ``index`` (0..), ``name`` (of the namespace, and the host's own), ``address`` (IPv4, text),
    ``prefix`` (bits of its subnet).
    """

    def __init__(self, index: int, name: str, address: str, prefix: int, names: Path) -> None:
        self.index, self.name, self.address, self.prefix = index, name, address, prefix
        self._names = names
        self._started: list[subprocess.Popen[Any]] = []

    def command(self, argv: Sequence[str]) -> list[str]:
        """Return the command line that runs ``argv`` in this host, for `run` and `popen`."""
        inside = [tool("unshare"), "--uts", "sh", "-c", _ENTER, self.name, str(self._names)]
        return [tool("ip"), "netns", "exec", self.name, *inside, *argv]

    def run(
        self, argv: Sequence[str], *, timeout: float = 60.0, **options: Any
    ) -> subprocess.CompletedProcess[Any]:
        """Call ``subprocess.run(argv, **options)`` in this host.

        ``subprocess.TimeoutExpired`` after ``timeout`` seconds; processes that it has started end with the
        network.
        """
        return subprocess.run(self.command(argv), timeout=timeout, **options)

    def popen(self, argv: Sequence[str], **options: Any) -> subprocess.Popen[Any]:
        """Call ``subprocess.Popen(argv, **options)`` in this host.

        The process is ended with the network at the latest.
        """
        started = subprocess.Popen(self.command(argv), **options)
        self._started.append(started)
        return started

    def set(self, **values: object) -> None:
        """Set variables of ``net.ipv4`` in this host, such as ``tcp_congestion_control="cubic"``."""
        for name, value in values.items():
            path = f"/proc/sys/net/ipv4/{name}"
            script = 'printf %s "$1" >"$0"'
            command = [tool("ip"), "netns", "exec", self.name, "sh", "-c", script, path, str(value)]
            done = subprocess.run(command, capture_output=True, text=True, timeout=60)
            if done.returncode:
                raise NetworkError(
                    f"{self.name}: {name} cannot be {value!r}: {' '.join(done.stderr.split())}"
                )

    def pids(self) -> list[int]:
        """Return the processes that run in this host."""
        return registry.pids(self.name)

    def reap(self) -> None:
        """Collect the exit status of the processes that `popen` has started, once the host is gone."""
        for started in self._started:
            try:
                started.wait(1)
            except subprocess.TimeoutExpired:
                started.kill()  # it was about to enter the namespace when the others there were ended
                with suppress(subprocess.TimeoutExpired):
                    started.wait(10)
        self._started.clear()

    def __repr__(self) -> str:
        return f"<Host {self.name} {self.address}>"


class Namespaces:
    """``hosts`` namespaces with loopback up and nothing else, as a context manager.

    Leaving it, by the end, an exception, Ctrl-C or SIGTERM, ends every process in them and deletes them.
    Namespaces of a killed program are removed when the next program enters. Those of a running program stay,
    so several sets can exist at a time; a number in their names tells them apart.

    Parameters
    ----------
    hosts
        1..64. ``ValueError`` otherwise, ``TypeError`` if it is not an integer.
    subnet
        IPv4 network of the hosts; host *i* has its address *i + 1*. It is independent of all networks
        outside.

    `NetworkUnavailable`, which says what is missing, where the user or the machine cannot make namespaces.
    """

    _extra: tuple[str, ...] = ()
    """More namespaces, by the ends of their names."""

    def __init__(self, hosts: int, subnet: str = "10.77.0.0/24") -> None:
        self.size = integer("hosts", hosts, 1, MOST_HOSTS)
        try:
            self.subnet = ipaddress.IPv4Network(subnet)
        except ValueError as error:
            raise ValueError(
                f"subnet must be an IPv4 network such as '10.77.0.0/24', not {subnet!r}"
            ) from error
        if self.subnet.num_addresses < hosts + 2:
            raise ValueError(f"subnet must have room for {hosts} hosts, not {subnet!r}")
        self.hosts: list[Host] = []
        self.folder: Path
        """Folder for temporary files of this set of hosts; deleted with it."""
        self._number: int | None = None
        self._pid = 0
        self._handlers: dict[signal.Signals, Any] = {}

    def names(self, number: int) -> list[str]:
        """Return the namespaces of the set of that number."""
        ends = (*map(str, range(self.size)), *self._extra)
        return [f"{registry.PREFIX}{number}-{end}" for end in ends]

    def __enter__(self) -> Self:
        if self._number is not None:
            raise NetworkError("these namespaces have been entered already")
        require()
        self._pid = os.getpid()
        atexit.register(self.close)
        self._handlers.update(unwind_on_signals())
        try:
            self.folder = Path(tempfile.gettempdir()) / f"{registry.FILES}{secrets.token_hex(8)}"
            self._number = registry.claim(self.names, self.folder)
            self.folder.mkdir(mode=0o700)
            names = self.names(self._number)
            for name in names:
                ip("netns", "add", name)
                ip("link", "set", "lo", "up", namespace=name)
            table = self.folder / "hosts"
            self.hosts = [
                Host(index, names[index], str(self.subnet[index + 1]), self.subnet.prefixlen, table)
                for index in range(self.size)
            ]
            lines = ["127.0.0.1 localhost", *(f"{host.address} {host.name}" for host in self.hosts)]
            table.write_text("\n".join(lines) + "\n")
            self._join()
        except BaseException:
            self.close()
            raise
        return self

    def _join(self) -> None:
        """Join the hosts, in a subclass."""

    def _leave(self) -> None:
        """Free what `_join` has made beside the namespaces, which have gone by then."""

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove everything; do nothing at a second call, or in a forked process."""
        if os.getpid() != self._pid:
            return
        main = threading.current_thread() is threading.main_thread()
        blocked = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
        before = signal.pthread_sigmask(signal.SIG_BLOCK, blocked) if main else set()
        try:
            number, self._number = self._number, None
            if number is not None:
                registry.remove(self.names(number))
            for host in self.hosts:
                host.reap()
            if number is not None:
                shutil.rmtree(self.folder, ignore_errors=True)
                registry.release(number)
            atexit.unregister(self.close)
        finally:
            try:
                self._leave()
            finally:
                if main:
                    for number, handler in self._handlers.items():
                        signal.signal(number, handler)
                    self._handlers.clear()
                    signal.pthread_sigmask(signal.SIG_SETMASK, before)
