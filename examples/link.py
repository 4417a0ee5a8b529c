# SPDX-License-Identifier: BSD-2-Clause
"""Two network namespaces joined by a veth pair, and a frame recorder: Linux, root, iproute2 only."""

import ctypes
import fcntl
import multiprocessing
import os
import select
import socket
import struct
import subprocess
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

CLONE_NEWNET = 0x4000_0000
SIOCETHTOOL = 0x8946
OFFLOADS = {"receive checksum": 0x15, "transmit checksum": 0x17, "scatter-gather": 0x19, "TSO": 0x1F,
            "GSO": 0x24, "GRO": 0x2C}  # fmt: skip
"""ETHTOOL_SRXCSUM and its siblings of linux/ethtool.h: with all of them off, the kernel itself
segments and sums, and a packet socket sees what would be on the wire."""
SO_TIMESTAMPNS = 35
ETH_P_ALL = 3


def _ip(*arguments: str, namespace: str | None = None) -> None:
    where = ["-n", namespace] if namespace else []
    subprocess.run(["ip", *where, *arguments], check=True)


class Frame(NamedTuple):
    """A recorded frame: nanoseconds since the epoch, sent by the recording host or not, bytes without FCS."""

    time_ns: int
    outgoing: bool
    data: bytes


class Host:
    """One namespace with one interface, ``eth0``."""

    def __init__(self, namespace: str, address: str, mac: str):
        self.namespace, self.address, self.mac = namespace, address, mac

    def enter(self) -> None:
        """Move the calling process into the namespace, for good."""
        with open(f"/run/netns/{self.namespace}") as namespace:
            if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), "setns", self.namespace)

    def sysctl(self, **values: int) -> None:
        """Set ``net.ipv4`` variables."""
        for name, value in values.items():
            command = ["ip", "netns", "exec", self.namespace, "sysctl", "-qw", f"net.ipv4.{name}={value}"]
            subprocess.run(command, check=True)

    def offloads_off(self) -> None:
        """Switch off every offload of `OFFLOADS`; call from inside the namespace."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            for command in OFFLOADS.values():
                value = ctypes.create_string_buffer(struct.pack("II", command, 0))
                request = struct.pack("16sP", b"eth0", ctypes.addressof(value)).ljust(40, b"\0")
                fcntl.ioctl(s, SIOCETHTOOL, request)

    @property
    def _local_route(self) -> tuple[str, ...]:
        return ("local", self.address, "dev", "eth0", "table", "local")

    def deafen(self) -> None:
        """Drop packets for this host's address, until `hear`.

        The address leaves the kernel's table of local routes, so that arriving packets have nowhere to go.
        """
        _ip("route", "del", *self._local_route, namespace=self.namespace)

    def hear(self) -> None:
        """End what `deafen` began."""
        more = ("proto", "kernel", "scope", "host", "src", self.address)
        _ip("route", "add", *self._local_route, *more, namespace=self.namespace)


class Link:
    """Context manager: makes the two hosts, and removes them at the end, after an error too."""

    def __init__(self, addresses: tuple[str, str]):
        self.addresses = addresses
        names = [f"inceptionn-{os.getpid()}-{n}" for n in range(2)]
        first, second = (Host(names[n], addresses[n], f"02:00:00:00:00:{n + 1:02x}") for n in range(2))
        self.hosts = (first, second)

    def __enter__(self) -> Self:
        try:
            for host in self.hosts:
                _ip("netns", "add", host.namespace)
            one, other = self.hosts
            _ip("link", "add", "eth0", "address", one.mac, "type", "veth", "peer", "name", "eth0",
                "address", other.mac, "netns", other.namespace, namespace=one.namespace)  # fmt: skip
            for host in self.hosts:
                # Without early demultiplexing every packet is routed, so that `Host.deafen` works.
                host.sysctl(tcp_early_demux=0, udp_early_demux=0, ip_early_demux=0)
                _ip("address", "add", f"{host.address}/24", "dev", "eth0", namespace=host.namespace)
                _ip("link", "set", "lo", "up", namespace=host.namespace)
                _ip("link", "set", "eth0", "up", namespace=host.namespace)
                process = multiprocessing.Process(target=_inside, args=(host,))
                process.start()
                process.join()
                if process.exitcode != 0:
                    raise RuntimeError(f"offloads of {host.namespace} could not be switched off")
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for host in self.hosts:
            if Path(f"/run/netns/{host.namespace}").exists():
                _ip("netns", "delete", host.namespace)

    def configure(self, *, mtu: int, timestamps: bool, ecn: bool) -> None:
        """Set the MTU, and TCP timestamps and ECN for connections opened from now on.

        The MTU is in bytes of IP packet.
        """
        for host in self.hosts:
            _ip("link", "set", "eth0", "mtu", str(mtu), namespace=host.namespace)
            host.sysctl(tcp_timestamps=int(timestamps), tcp_ecn=int(ecn))


def _inside(host: Host) -> None:
    host.enter()
    host.offloads_off()


class Recorder:
    """Records every frame that leaves or reaches a host's ``eth0``, from construction until `stop`."""

    def __init__(self, host: Host):
        context = multiprocessing.get_context("fork")
        self._pipe, theirs = context.Pipe()
        context.Process(target=_record, args=(host, theirs), daemon=True).start()
        self._pipe.recv()

    def stop(self) -> list[Frame]:
        """End the recording a tenth of a second after the last frame, and return it."""
        self._pipe.send(None)
        frames: list[Frame] = self._pipe.recv()
        return frames


def _record(host: Host, pipe: Connection) -> None:
    host.enter()
    frames: list[Frame] = []
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL)) as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 24)
        s.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        s.bind(("eth0", ETH_P_ALL))
        pipe.send(None)
        while select.select([s], [], [], 0.1)[0] or not pipe.poll():
            if not select.select([s], [], [], 0)[0]:
                continue
            data, ancillary, _, sender = s.recvmsg(65536, 64)
            seconds, nanoseconds = struct.unpack("qq", ancillary[0][2][:16])
            outgoing = sender[2] == socket.PACKET_OUTGOING
            frames.append(Frame(seconds * 1_000_000_000 + nanoseconds, outgoing, data))
    pipe.send(frames)


def write_pcap(path: Path, frames: list[Frame]) -> None:
    """Write a pcap of Ethernet frames with nanosecond timestamps."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as pcap:
        pcap.write(struct.pack("<IHHiIII", 0xA1B2_3C4D, 2, 4, 0, 0, 65535, 1))
        for time_ns, _, data in frames:
            pcap.write(struct.pack("<IIII", *divmod(time_ns, 1_000_000_000), len(data), len(data)) + data)
