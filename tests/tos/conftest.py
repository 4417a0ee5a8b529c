# SPDX-License-Identifier: BSD-2-Clause
"""Network namespaces and captures for the tests of the ToS mark: Linux, root, iproute2."""

import ctypes
import os
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import pytest
from missing import missing
from outcomes import outcomes, returned

from inceptionn.netns import Network
from inceptionn.netns.iproute import ip
from inceptionn.netns.network import INTERFACE
from inceptionn.netns.registry import NETNS

CLONE_NEWNET = 0x4000_0000


@pytest.fixture
def root() -> None:
    """Skips the test, or fails it under continuous integration, for another user than root."""
    if os.geteuid() != 0:
        missing("this takes root")


class Segment(NamedTuple):
    """A TCP segment over IPv4: ToS byte, ports, SYN or not, payload."""

    tos: int
    source: int
    destination: int
    syn: bool
    payload: bytes


def parse(packet: bytes) -> Segment | None:
    """Return the TCP segment of an IPv4 packet, or None."""
    if packet[0] >> 4 != 4 or packet[9] != socket.IPPROTO_TCP:
        return None
    tcp = packet[(packet[0] & 15) * 4 : struct.unpack(">H", packet[2:4])[0]]
    source, destination = struct.unpack(">HH", tcp[:4])
    return Segment(packet[1], source, destination, bool(tcp[13] & 2), tcp[(tcp[12] >> 4) * 4 :])


class Hosts(Network):
    """Hosts in whose namespaces threads of the test run, and whose packets it records."""

    def enter(self, number: int) -> None:
        """Move the calling thread into one of the namespaces."""
        with (NETNS / self.hosts[number].name).open() as file:
            if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), "setns")

    def run(self, functions: list[Callable[[], Any]]) -> list[Any]:
        """Run each function in a thread in its namespace; return results, or raise the first exception."""

        def inside(number: int, function: Callable[[], Any]) -> Any:
            self.enter(number)
            return function()

        return returned(outcomes([partial(inside, *each) for each in enumerate(functions)]))

    def record(self, number: int, during: Callable[[], Any]) -> list[Segment]:
        """Call ``during``; return the TCP segments that leave or reach a namespace's eth0 meanwhile."""
        segments: list[Segment] = []
        ready, stop = threading.Event(), threading.Event()

        def capture() -> None:
            self.enter(number)
            with socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(3)) as sock:
                sock.setsockopt(socket.SOL_SOCKET, 33, 1 << 26)  # SO_RCVBUFFORCE
                sock.bind((INTERFACE, 3))
                sock.settimeout(0.2)
                ready.set()
                while True:
                    try:
                        segment = parse(sock.recv(65536))
                    except TimeoutError:
                        if stop.is_set():
                            return
                        continue
                    if segment is not None:
                        segments.append(segment)

        thread = threading.Thread(target=capture, daemon=True)
        thread.start()
        assert ready.wait(5)
        try:
            during()
        finally:
            stop.set()
            thread.join(10)
        return segments


@pytest.fixture
def namespaces(request: pytest.FixtureRequest) -> Iterator[Hosts]:
    """Return two hosts, 10.77.9.1 and 10.77.9.2; indirect parameter: the MTU (default 1500)."""
    with Hosts(2, mtu=getattr(request, "param", 1500), subnet="10.77.9.0/24") as made:
        for host in made.hosts:  # one segment per packet in the capture, as on a wire
            ip("link", "set", INTERFACE, "gso_max_segs", "1", namespace=host.name)
        yield made
