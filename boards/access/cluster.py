# SPDX-License-Identifier: BSD-2-Clause
"""Registers of a host's NIC in a running virtual cluster, through the socket in the cluster's folder."""

import re
import socket
from pathlib import Path

from inceptionn.netns.registry import folders

from .bus import Bus, BusError

SOCKET = "registers"
"""Name of the socket in the folder of a cluster."""
_PATIENCE = 10.0


def find_socket() -> Path:
    """Return the socket of the running cluster. Raise `BusError` if none runs, or more than one."""
    found = [path for folder in folders() if (path := folder / SOCKET).exists()]
    if not found:
        raise BusError("no virtual cluster runs: start one with inceptionn cluster run")
    if len(found) > 1:
        names = ", ".join(map(str, found))
        raise BusError(f"{len(found)} virtual clusters run: choose one by --socket, of {names}")
    return found[0]


class ClusterBus(Bus):
    """The NIC of ``host`` ("host0" or "0").

    A request is a line, ``host0 read 0x018`` or ``host0 write 0x018 0x7f7875``. The answer is a line too: the
    value, empty after a write, or ``error`` and a text (`inceptionn.sim.cluster.register_server`).
    """

    def __init__(self, host: str, path: Path | None = None) -> None:
        self.host = f"host{host}" if host.isdecimal() else host
        if not re.fullmatch(r"host\d+", self.host):
            raise ValueError(f"host must be host0, host1, ... or a number, not {host!r}")
        if path is not None and not path.is_socket():
            raise ValueError(f"no socket of a virtual cluster: {str(path)!r}")
        path = path or find_socket()
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(_PATIENCE)
        try:
            self._socket.connect(str(path))
        except OSError as error:
            self._socket.close()
            raise BusError(
                f"the virtual cluster at {str(path)!r} does not answer: {error.strerror}"
            ) from None
        self._lines = self._socket.makefile("rw", encoding="ascii", errors="backslashreplace", newline="\n")
        try:
            self.identify()
        except BusError:
            self.close()
            raise

    def _ask(self, request: str) -> str:
        try:
            self._lines.write(f"{self.host} {request}\n")
            self._lines.flush()
            answer = self._lines.readline()
        except TimeoutError:
            raise BusError(f"{self.host}: no answer within {_PATIENCE:g} s") from None
        except OSError as error:
            raise BusError(f"{self.host}: {error.strerror}") from None
        if not answer.endswith("\n"):
            raise BusError(f"{self.host}: the virtual cluster has ended")
        if answer.startswith("error "):
            raise BusError(answer.removeprefix("error ").strip())
        return answer.strip()

    def read32(self, address: int) -> int:
        return int(self._ask(f"read {address:#x}"), 16)

    def write32(self, address: int, value: int) -> None:
        self._ask(f"write {address:#x} {value:#x}")

    def close(self) -> None:
        self._lines.close()
        self._socket.close()
