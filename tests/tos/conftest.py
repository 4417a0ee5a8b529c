# SPDX-License-Identifier: BSD-2-Clause
"""Network namespaces and captures for the tests of the ToS mark: Linux, root, iproute2."""

import ctypes
import os
import shutil
import socket
import struct
import subprocess
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import pytest
from missing import missing
from outcomes import outcomes, returned

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


class Namespaces:
    """Two network namespaces, 10.77.9.1 and 10.77.9.2, joined by a veth pair."""

    def __init__(self) -> None:
        self.names = [f"inceptionn-tos-{os.getpid()}-{n}" for n in range(2)]
        self.addresses = ["10.77.9.1", "10.77.9.2"]

    def ip(self, *arguments: str) -> None:
        """Run ``ip``."""
        subprocess.run(["ip", *arguments], check=True)

    def build(self, mtu: int) -> None:
        """Make the namespaces; segments leave as they would on a wire, without offloads."""
        for name in self.names:
            self.ip("netns", "add", name)
        one, two = self.names
        self.ip("-n", one, "link", "add", "eth0", "mtu", str(mtu), "type", "veth",
                "peer", "name", "eth0", "mtu", str(mtu), "netns", two)  # fmt: skip
        for name, address in zip(self.names, self.addresses, strict=True):
            # One segment per packet in the capture.
            self.ip("-n", name, "link", "set", "eth0", "gso_max_segs", "1")
            self.ip("-n", name, "address", "add", f"{address}/24", "dev", "eth0")
            self.ip("-n", name, "link", "set", "lo", "up")
            self.ip("-n", name, "link", "set", "eth0", "up")

    def remove(self) -> None:
        """Remove the namespaces that exist."""
        for name in self.names:
            if os.path.exists(f"/run/netns/{name}"):
                self.ip("netns", "delete", name)

    def enter(self, number: int) -> None:
        """Move the calling thread into one of the namespaces."""
        with open(f"/run/netns/{self.names[number]}") as file:
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
                sock.bind(("eth0", 3))
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
def namespaces(request: pytest.FixtureRequest) -> Iterator[Namespaces]:
    """Two joined namespaces; indirect parameter: the MTU (default 1500)."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        missing("network namespaces take root and iproute2")
    made = Namespaces()
    try:
        try:
            made.build(getattr(request, "param", 1500))
        except subprocess.CalledProcessError as error:
            missing(f"network namespaces cannot be made here: {error}")
        yield made
    finally:
        made.remove()
