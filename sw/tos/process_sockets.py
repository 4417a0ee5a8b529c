# SPDX-License-Identifier: BSD-2-Clause
"""Marks the open connections of other, unmodified processes: ``inceptionn tag`` and ``inceptionn untag``.

NICs compress such a connection only while their register ``LEARN_PHASES`` is set (:func:`~.mark.tag`).

Linux only (5.6 or newer): pidfd_getfd gives this process a second handle of the same socket, for which it
needs the right to trace the other process (ptrace; root has it).
"""

import ctypes
import errno
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from ..system.address import parse_address
from ..system.options import byte_of, usage_error
from ..wire import DEFAULT_BF16_TOS, DEFAULT_TOS
from .mark import TosError, tag, tos_of, untag

_SYS_PIDFD_GETFD = 438
"""The same number on every architecture."""


class ProcessError(TosError):
    """Another process or its sockets cannot be reached; the text says what is missing, such as a right."""


def sockets_of(pid: int) -> Iterator[tuple[int, socket.socket]]:
    """Yield a process's TCP sockets over IPv4 and IPv6: its descriptors, and handles to the same sockets.

    The caller closes the handles. Raises `ProcessError` if the process does not exist or may not be traced.
    """
    try:
        pidfd = os.pidfd_open(pid)
    except OSError as error:
        raise ProcessError(error.errno, f"no process {pid}") from error
    try:
        try:
            links = [(int(path.name), path) for path in Path(f"/proc/{pid}/fd").iterdir()]
        except PermissionError as error:
            raise _not_allowed(pid, error.errno) from error
        for fd, path in sorted(links):
            try:
                if not os.readlink(path).startswith("socket:"):
                    continue
            except FileNotFoundError:
                continue  # closed meanwhile
            except PermissionError as error:
                raise _not_allowed(pid, error.errno) from error
            sock = _duplicate(pid, pidfd, fd)
            if sock is None:
                continue
            if sock.family in (socket.AF_INET, socket.AF_INET6) and sock.type == socket.SOCK_STREAM:
                yield fd, sock
            else:
                sock.close()
    finally:
        os.close(pidfd)


def _not_allowed(pid: int, number: int | None) -> ProcessError:
    return ProcessError(number, f"no permission to trace process {pid}, needed for its sockets (root has it)")


def _duplicate(pid: int, pidfd: int, fd: int) -> socket.socket | None:
    """Return a handle to another process's socket; None if it was closed meanwhile."""
    libc = ctypes.CDLL(None, use_errno=True)
    duplicate = libc.syscall(_SYS_PIDFD_GETFD, pidfd, fd, 0)
    if duplicate >= 0:
        return socket.socket(fileno=duplicate)
    number = ctypes.get_errno()
    if number == errno.EBADF:
        return None
    if number in (errno.EPERM, errno.EACCES):
        raise _not_allowed(pid, number)
    if number == errno.ENOSYS:
        raise ProcessError(number, "this kernel has no pidfd_getfd (Linux 5.6)")
    raise ProcessError(number, f"process {pid}: {os.strerror(number)}")


def connections_to(pid: int, peer: tuple[str, int]) -> list[tuple[int, socket.socket]]:
    """Return descriptors and handles of a process's TCP connections to one address and port.

    `ProcessError` names the existing connections if none goes there.
    """
    wanted = {where[:2] for *_, where in socket.getaddrinfo(*peer, type=socket.SOCK_STREAM)}
    found, others = [], []
    for fd, sock in sockets_of(pid):
        try:
            name = sock.getpeername()[:2]
        except OSError:
            sock.close()
            continue
        plain = (name[0].removeprefix("::ffff:"), name[1])
        if plain in wanted:
            found.append((fd, sock))
        else:
            others.append(f"{plain[0]}:{plain[1]}")
            sock.close()
    if not found:
        there = f"it has {', '.join(others)}" if others else "it has none"
        raise ProcessError(None, f"process {pid} has no TCP connection to {peer[0]}:{peer[1]}; {there}")
    return found


def _change(pid: int, peer: str, change: Callable[[socket.socket], None]) -> None:
    with usage_error():
        where = parse_address(peer)
    try:
        found = connections_to(pid, where)
    except socket.gaierror as error:
        raise typer.BadParameter(f"no such host: {where[0]!r}", param_hint="--peer") from error
    for fd, sock in found:
        with closing(sock):
            change(sock)
            typer.echo(f"process {pid}, descriptor {fd}, to {peer}: ToS {tos_of(sock):#04x}")


MOST_PID = 1 << 22
"""PID_MAX_LIMIT of Linux."""


def _checked(pid: int) -> int:
    if not 1 <= pid <= MOST_PID:
        raise typer.BadParameter(f"must be 1..{MOST_PID}, not {pid}")
    return pid


Pid = Annotated[int, typer.Argument(help="The process.", callback=_checked)]
Peer = Annotated[str, typer.Option(metavar="HOST:PORT", help="Remote end of its connection.")]


def tag_command(
    pid: Pid,
    peer: Peer,
    tos: Annotated[
        str,
        typer.Option(
            metavar="BYTE",
            help=f"The mark, a multiple of 4 from 4 to 252; {DEFAULT_BF16_TOS:#x} for bf16 values.",
        ),
    ] = f"{DEFAULT_TOS:#x}",
) -> None:
    """Mark another process's TCP connection, so that NICs with CONTROL.LEARN_PHASES compress what it sends.

    The connection must carry only fp32 values, or with 0x2c only bf16, and each segment must begin with one:
    any other data would be corrupted. Other NICs pass it raw, since its SYN was not marked.
    """
    with usage_error("--tos"):
        mark = byte_of(tos)
    if mark % 4 or not mark:  # the two low bits are ECN's
        raise typer.BadParameter(f"must be a multiple of 4 from 4 to 252, not {tos}", param_hint="--tos")
    _change(pid, peer, lambda sock: tag(sock, mark))
    typer.echo("it was open already, so NICs compress it only with CONTROL.LEARN_PHASES")


def untag_command(pid: Pid, peer: Peer) -> None:
    """Remove the mark from another process's TCP connection."""
    _change(pid, peer, untag)
