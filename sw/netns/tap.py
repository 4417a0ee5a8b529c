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
from typing import Self

from .iproute import NetworkError, NetworkUnavailable, batch, ip

_DEVICE = "/dev/net/tun"
_TUNSETIFF, _IFF_TAP, _IFF_NO_PI = 0x400454CA, 0x0002, 0x1000
_LONGEST = 65536
_QUEUE = 4096
"""Frames that the device holds for its reader, so that a slow one makes TCP wait instead of losing frames."""


def available() -> None:
    """Raise `NetworkUnavailable`, which names the missing part, if TAP devices cannot be made."""
    try:
        os.close(os.open(_DEVICE, os.O_RDWR))
    except OSError as error:
        raise NetworkUnavailable(
            f"this needs TAP devices, but {_DEVICE} cannot be opened: {error.strerror} "
            "(kernel module tun; a container has the device with --device /dev/net/tun)"
        ) from error


class Tap:
    """A network interface of a namespace, and its frames.

    Parameters
    ----------
    namespace, interface
        Name of the network namespace, and of the interface in it.
    mtu
        Size of an IP packet in bytes.
    settings
        Further words of ``ip link set``, such as "address 02:00:00:00:00:01".

    The interface is down. Raises `NetworkUnavailable` if this machine has no TAP devices.
    """

    def __init__(self, namespace: str, interface: str, mtu: int, settings: str = "") -> None:
        available()
        self.fd = os.open(_DEVICE, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            request = struct.pack("16sH22x", b"inctap%d", _IFF_TAP | _IFF_NO_PI)
            answer = fcntl.ioctl(self.fd, _TUNSETIFF, request)
            name = answer[:16].rstrip(b"\0").decode()
            ip("link", "set", name, "netns", namespace, "name", interface)
            line = f"link set {interface} mtu {mtu} txqueuelen {_QUEUE} {settings}"
            batch("ip", namespace, [line])
        except OSError as error:
            os.close(self.fd)
            raise NetworkError(f"{namespace}: no TAP device: {error.strerror}") from error
        except BaseException:
            os.close(self.fd)
            raise

    @classmethod
    def of(cls, fd: int) -> Self:
        """Return the device of a descriptor that another process has made."""
        tap = cls.__new__(cls)
        tap.fd = fd
        return tap

    def read(self, most: int) -> list[bytes]:
        """Read at most ``most`` frames that were sent there. Empty if there are none now."""
        frames: list[bytes] = []
        read, fd = os.read, self.fd
        with suppress(BlockingIOError):
            while len(frames) < most:
                frames.append(read(fd, _LONGEST))
        return frames

    def write(self, frame: bytes) -> bool:
        """Let a frame arrive there. False if the kernel refuses it (shorter than an Ethernet header)."""
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
