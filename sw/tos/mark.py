# SPDX-License-Identifier: BSD-2-Clause
"""The ToS mark: which sockets' packets the NIC's engines may compress.

The paper (Sec. VI-C) sets the option through Open MPI's collectives; here it is set on the socket itself,
which must carry fp32 values and nothing else (``docs/wire-format.md``, section 3), or bf16 values under a
mark of their own (`DEFAULT_BF16_TOS`, section 10).
"""

import fcntl
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from ..wire import DEFAULT_TOS, DEFAULT_TOS_MASK, LANE_BYTES

_ECN = 0xFF ^ DEFAULT_TOS_MASK
_IP_MTU = 14
_IPV6_MTU = 24
_HEADERS = {socket.AF_INET: 40, socket.AF_INET6: 60}
"""Bytes of IP and TCP header without options; TCP's options are multiples of 4."""
_SIOCGIFFLAGS, _SIOCGIFMTU, _IFF_UP = 0x8913, 0x8921, 1
_MIN_MSS, _MAX_MSS = 88, 32764


class TosError(OSError):
    """The kernel refused the mark, or did not keep it."""

    def __str__(self) -> str:
        return str(self.strerror)


def tag(sock: socket.socket, tos: int = DEFAULT_TOS, *, peer: Any = None) -> None:
    """Mark what a socket sends from now on; IPv4 and IPv6 (traffic class), TCP and UDP.

    Call it before ``connect`` or ``listen`` (connections that a marked listener accepts are marked). Only
    then does the connection's SYN carry the mark, by which NICs know where its values begin; others pass raw
    (``UNKNOWN_FLOW``, ``docs/wire-format.md``, section 7) unless the NIC's ``LEARN_PHASES`` is set. A marked
    connection may change to the other mark when the other side has confirmed the data: what TCP sends again
    has the new mark, and would be compressed as values of the other type. Only before ``connect``, too, can
    the maximum segment size be a multiple of 4: that of the route to ``peer``, an address as ``connect``
    takes it, if given. (A ``connect`` that fails makes the kernel forget the size: mark again.) TCP sockets
    also get TCP_NODELAY. A socket keeps its SO_PRIORITY, which the kernel would change with the byte; one
    above 6 takes CAP_NET_ADMIN.

    ``tos``: 0x28 for fp32, 0x2C for bf16, or another of 4..252, its two low bits zero, since they belong to
    ECN and keep the kernel's values. Raises ``ValueError`` for other values or sockets, `TosError` if the
    kernel refuses or does not keep it.
    """
    if isinstance(tos, bool) or not isinstance(tos, int) or not 0 < tos < 256 or tos & _ECN:
        raise ValueError(f"tos must be one of 4..252 with the two ECN bits zero, not {tos!r}")
    _options(sock)
    if sock.type == socket.SOCK_STREAM:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if not _connected(sock):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, _segment_size(sock, peer))
    _set(sock, tos)


def untag(sock: socket.socket) -> None:
    """Remove the mark: what the socket sends from now on has ToS 0. Errors like `tag`'s."""
    _set(sock, 0)


@contextmanager
def tagged(sock: socket.socket, tos: int = DEFAULT_TOS) -> Iterator[socket.socket]:
    """Mark the socket in this context; its end restores the former ToS.

    NICs compress a TCP connection only if it was marked before ``connect``, and those values that begin at a
    multiple of 4 bytes from its first byte. A TCP socket may send long after a write: end the context only
    when the other side has confirmed the data.
    """
    before = tos_of(sock)
    tag(sock, tos)
    try:
        yield sock
    finally:
        if sock.fileno() >= 0:
            _set(sock, before & DEFAULT_TOS_MASK)


def tos_of(sock: socket.socket) -> int:
    """Return the ToS byte (IPv6: traffic class) of a socket's packets, ECN bits included.

    ``ValueError`` for a socket of another kind.
    """
    level, option = _options(sock)[0]
    return sock.getsockopt(level, option)


def is_tagged(sock: socket.socket, tos: int = DEFAULT_TOS) -> bool:
    """Tell whether a socket's packets carry this mark."""
    return tos_of(sock) & DEFAULT_TOS_MASK == tos


def _options(sock: socket.socket) -> list[tuple[int, int]]:
    """Return level and option of the byte.

    For IPv6 also IPv4's, which counts where the peer is an IPv4 host. ``ValueError`` for another family.
    """
    if sock.family not in _HEADERS:
        raise ValueError(f"only IPv4 and IPv6 sockets have a ToS byte, not {sock.family.name}")
    ipv4 = (socket.IPPROTO_IP, socket.IP_TOS)
    if sock.family == socket.AF_INET:
        return [ipv4]
    six = (socket.IPPROTO_IPV6, socket.IPV6_TCLASS)
    return [six] if sock.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY) else [six, ipv4]


def _set(sock: socket.socket, tos: int) -> None:
    """Set the six upper bits, and read them back. The socket's priority stays."""
    options = _options(sock)
    priority = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY)
    for level, option in options:
        try:
            value = tos | (sock.getsockopt(level, option) & _ECN)
            sock.setsockopt(level, option, value)
            got = sock.getsockopt(level, option)
        except OSError as error:
            raise TosError(error.errno, f"the kernel refuses ToS {tos:#04x}: {error.strerror}") from error
        if got & DEFAULT_TOS_MASK != tos:
            raise TosError(None, f"the kernel has not kept ToS {tos:#04x} but has {got:#04x}")
    if sock.getsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY) != priority:  # IP_TOS sets it, too
        with suppress(PermissionError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, priority)


def _connected(sock: socket.socket) -> bool:
    try:
        sock.getpeername()
    except OSError:
        return False
    return True


def _segment_size(sock: socket.socket, peer: Any) -> int:
    """Return the largest multiple of 4 that fits the route to a peer, or, without one, every interface."""
    headers = _HEADERS[sock.family]
    mtus = [_path_mtu(sock.family, peer)] if peer is not None else _interface_mtus()
    sizes = [mtu - headers for mtu in mtus]
    # Where every interface's own size is a multiple of 4, no limit is needed.
    size = max(sizes) if all(size % LANE_BYTES == 0 for size in sizes) else min(sizes)
    return max(_MIN_MSS, min(_MAX_MSS, size - size % LANE_BYTES))


def _path_mtu(family: int, peer: Any) -> int:
    """Return the MTU of the route to an address, as the kernel knows it; nothing is sent."""
    level, option = (
        (socket.IPPROTO_IP, _IP_MTU) if family == socket.AF_INET else (socket.IPPROTO_IPV6, _IPV6_MTU)
    )
    with socket.socket(family, socket.SOCK_DGRAM) as way:
        try:
            way.connect(peer)
            return way.getsockopt(level, option)
        except OSError as error:
            raise TosError(error.errno, f"no route to {peer[0]}: {error.strerror}") from error


def _interface_mtus() -> list[int]:
    """Return the MTUs of the interfaces that are up; 1500 where the system does not say."""
    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        for _, name in socket.if_nameindex():
            request = struct.pack("16s24x", name.encode())
            try:
                (flags,) = struct.unpack_from("H", fcntl.ioctl(sock, _SIOCGIFFLAGS, request), 16)
                (mtu,) = struct.unpack_from("i", fcntl.ioctl(sock, _SIOCGIFMTU, request), 16)
            except OSError:
                continue  # removed meanwhile
            if flags & _IFF_UP:
                found.append(mtu)
    return found or [1500]
