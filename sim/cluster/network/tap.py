# SPDX-License-Identifier: BSD-2-Clause
"""A TAP device, which joins a network interface of a namespace to a file of Ethernet frames.

The device is made here and moved into the namespace. It is not persistent: the kernel removes it however this
process ends. It has no offloads, so the kernel computes every checksum and segments and verifies every
packet.
"""

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
"""Frames that the device holds for its NIC, so that a slow NIC makes TCP wait instead of losing frames."""


def available() -> None:
    """Raise `NetworkUnavailable`, which names the missing part, if TAP devices cannot be made."""
    try:
        os.close(os.open(_DEVICE, os.O_RDWR))
    except OSError as error:
        raise NetworkUnavailable(
            f"the virtual cluster needs TAP devices, but {_DEVICE} cannot be opened: {error.strerror} "
            "(kernel module tun; a container has the device with --device /dev/net/tun)"
        ) from error


class Tap:
    """The interface ``eth0`` of a namespace, which is up, and its frames.

    Parameters
    ----------
    namespace
        Name of the network namespace.
    mac, mtu
        Hardware address as text, and size of an IP packet in bytes.
    address
        IPv4 address with its prefix length, as text.

    Raises `NetworkUnavailable` if this machine has no TAP devices.
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
        """Read at most ``most`` frames that the host has sent. Empty if there are none now."""
        frames: list[bytes] = []
        read, fd = os.read, self.fd
        with suppress(BlockingIOError):
            while len(frames) < most:
                frames.append(read(fd, _LONGEST))
        return frames

    def write(self, frame: bytes) -> bool:
        """Give a frame to the host. False if the kernel refuses it (shorter than an Ethernet header)."""
        try:
            os.write(self.fd, frame)
        except OSError:
            return False
        return True

    def close(self) -> None:
        """Remove the device."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1
