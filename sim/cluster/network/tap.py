# SPDX-License-Identifier: BSD-2-Clause
"""A TAP device: the host's end is a network interface of a namespace, ours a file of Ethernet frames.

The device is made here and moved into the namespace. It is not persistent: when this process ends, however
it ends, the kernel removes it. It has no offloads, so the kernel sums, segments and verifies every packet
itself.
"""

from __future__ import annotations

import fcntl
import os
import struct
from contextlib import suppress

from inceptionn.netns import NetworkError, NetworkUnavailable
from inceptionn.netns.iproute import batch, ip

INTERFACE = "eth0"
"""The interface of every host, towards its NIC."""
_DEVICE = "/dev/net/tun"
_TUNSETIFF, _IFF_TAP, _IFF_NO_PI = 0x400454CA, 0x0002, 0x1000
_LONGEST = 65536
_QUEUE = 4096
"""Frames that the device holds for its NIC; a slow NIC should make TCP wait and not lose frames."""


def available() -> None:
    """Returns if TAP devices can be made; else `NetworkUnavailable`, which says what is missing."""
    try:
        os.close(os.open(_DEVICE, os.O_RDWR))
    except OSError as error:
        raise NetworkUnavailable(
            f"the virtual cluster needs TAP devices, and {_DEVICE} cannot be opened: {error.strerror} "
            "(kernel module tun; a container has the device with --device /dev/net/tun)"
        ) from error


class Tap:
    """The interface ``eth0`` of a namespace, up, and its frames.

    Parameters
    ----------
    namespace
        Name of the network namespace.
    mac, mtu
        Hardware address, as text, and bytes of an IP packet.
    address
        IPv4 address with prefix length, as text.

    `NetworkUnavailable` where this machine has no TAP devices.
    """

    def __init__(self, namespace: str, mac: str, mtu: int, address: str) -> None:
        available()
        self.fd = os.open(_DEVICE, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            request = struct.pack("16sH22x", b"inctap%d", _IFF_TAP | _IFF_NO_PI)
            answer = fcntl.ioctl(self.fd, _TUNSETIFF, request)
            name = answer[:16].rstrip(b"\0").decode()
            ip("link", "set", name, "netns", namespace, "name", INTERFACE)
            settings = f"address {mac} mtu {mtu} txqueuelen {_QUEUE} addrgenmode none"
            lines = [f"link set {INTERFACE} {settings}", f"link set {INTERFACE} up"]
            batch("ip", namespace, [*lines, f"address add {address} dev {INTERFACE}"])
        except OSError as error:
            os.close(self.fd)
            raise NetworkError(f"{namespace}: no TAP device: {error.strerror}") from error
        except BaseException:
            os.close(self.fd)
            raise

    def read(self, most: int) -> list[bytes]:
        """Frames that the host has sent, at most ``most``; an empty list if there are none now."""
        frames: list[bytes] = []
        read, fd = os.read, self.fd
        with suppress(BlockingIOError):
            while len(frames) < most:
                frames.append(read(fd, _LONGEST))
        return frames

    def write(self, frame: bytes) -> bool:
        """Gives a frame to the host; False if the kernel refuses it (shorter than an Ethernet header)."""
        try:
            os.write(self.fd, frame)
        except OSError:
            return False
        return True

    def close(self) -> None:
        """Removes the device."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1
