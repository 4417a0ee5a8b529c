# SPDX-License-Identifier: BSD-2-Clause
"""A network namespace's own protocol counters, as in /proc/net/snmp and /proc/net/netstat."""

import ctypes
import os
import threading
from pathlib import Path

from inceptionn.netns import NetworkError
from inceptionn.netns.registry import NETNS

_CLONE_NEWNET = 0x4000_0000


def kernel_counters(namespace: str) -> dict[str, int]:
    """Read counters by name, such as ``TcpInCsumErrors``, ``TcpRetransSegs``, ``IpExtInCEPkts``.

    A thread enters the namespace to read them. Raises `NetworkError` if the namespace does not exist.
    """
    found: dict[str, int] = {}
    wrong: list[OSError] = []

    def visit() -> None:
        try:
            with (NETNS / namespace).open() as handle:
                if ctypes.CDLL(None, use_errno=True).setns(handle.fileno(), _CLONE_NEWNET):
                    error = ctypes.get_errno()
                    raise OSError(error, os.strerror(error))
            for table in ("snmp", "netstat"):
                found.update(parse(Path(f"/proc/thread-self/net/{table}").read_text()))
        except OSError as error:
            wrong.append(error)

    thread = threading.Thread(target=visit, name=f"counters-{namespace}")
    thread.start()
    thread.join()
    if wrong:
        raise NetworkError(f"{namespace}: its counters cannot be read: {wrong[0].strerror}")
    return found


def parse(text: str) -> dict[str, int]:
    """Read the counters of a table of line pairs, names and numbers. Each line begins with its protocol."""
    lines = [line.split() for line in text.splitlines()]
    found = {}
    for names, values in zip(lines[::2], lines[1::2], strict=True):
        protocol = names[0].rstrip(":")
        for name, value in zip(names[1:], values[1:], strict=True):
            found[protocol + name] = int(value)
    return found


def checksum_errors(counters: dict[str, int]) -> dict[str, int]:
    """Count packets dropped for a wrong checksum, by protocol."""
    names = {"tcp": "TcpInCsumErrors", "udp": "UdpInCsumErrors", "ip": "IpExtInCsumErrors"}
    return {protocol: counters.get(name, 0) for protocol, name in names.items()}
