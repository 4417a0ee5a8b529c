# SPDX-License-Identifier: BSD-2-Clause
"""A listening port that strangers can reach, too: it accepts all, and keeps few and none for long."""

from __future__ import annotations

import errno
import resource
import select
import socket
import time
from typing import TYPE_CHECKING, Any

from ..base import TransportError
from .line import Line, decoded

if TYPE_CHECKING:
    from .control import Control

BACKLOG = 4096
"""Connections that the kernel holds until they are accepted (at most ``net.core.somaxconn``)."""
GUESTS = 128
"""Most open connections that are not known to be a rank's; a new one replaces the oldest."""
GUEST_SECONDS = 10.0
"""Seconds for which one is held at most."""
_FULL = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


def accepted(listener: socket.socket) -> tuple[socket.socket, tuple[Any, ...]] | None:
    """A connection and where it comes from; None if there is none now.

    `TransportError` where there is no room for one, its cause the ``OSError``.
    """
    try:
        return listener.accept()
    except OSError as error:
        if error.errno in _FULL:
            raise TransportError(
                f"no connection can be accepted: {error.strerror}; raise the limit of open files (ulimit -n)"
            ) from error
        return None  # none waiting, or closed already


class Door:
    """Guests (unknown connections) at a listening socket, made non-blocking; on exit it closes those left.

    ``control``: connections to watch meanwhile, which may raise `PeerLost`.
    """

    def __init__(self, listener: socket.socket, control: Control | None = None) -> None:
        listener.setblocking(False)
        self._listener, self._control = listener, control
        self._most = max(1, min(GUESTS, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 4))
        self._guests: dict[int, tuple[Line, float]] = {}
        """By descriptor: who, and until when; the oldest first."""
        self._introduced: set[Line] = set()
        self._poll = select.poll()
        self._poll.register(listener, select.POLLIN)
        if control is not None:
            self._poll.register(control.fileno(), select.POLLIN)

    def hear(self, deadline: float) -> list[tuple[Line, dict[str, Any]]]:
        """The objects that guests sent, once there are any; [] also before the deadline.

        A guest that sends anything but short objects is closed. `TransportError` if even without guests
        there is no room for a connection, `PeerLost` from ``control``.
        """
        now = time.monotonic()
        for line, until in list(self._guests.values()):
            if until <= now:
                self.show_out(line)
        wake = min([deadline, *(until for _, until in self._guests.values())])
        said: list[tuple[Line, dict[str, Any]]] = []
        ready = [fd for fd, _ in self._poll.poll(max(0.0, wake - now) * 1000 + 1)]
        if self._control is not None and self._control.fileno() in ready:
            self._control.pump()
        for fd in ready:
            if fd in self._guests:
                line = self._guests[fd][0]
                try:
                    line.fill()
                    if len(line.lines) > 1:
                        raise ValueError("a guest waits for an answer to each object")
                    said += [(line, decoded(line.lines.popleft())) for _ in range(len(line.lines))]
                except BlockingIOError:
                    continue
                except (OSError, EOFError, ValueError):
                    self.show_out(line)
        if self._listener.fileno() in ready:
            self._let_in()
        return [(line, one) for line, one in said if line.sock.fileno() in self._guests]  # not the oldest

    def _let_in(self) -> None:
        # Fewer at a time than there may be guests: each is heard once before it can be the oldest.
        for _ in range((self._most + 1) // 2):
            try:
                found = accepted(self._listener)
            except TransportError:
                if not self._guests:
                    raise
                self._show_out_oldest()
                continue
            if found is None:
                return
            if len(self._guests) >= self._most:
                self._show_out_oldest()
            line = Line(found[0], 0.0, stranger=True)
            self._guests[found[0].fileno()] = line, time.monotonic() + GUEST_SECONDS
            self._poll.register(found[0], select.POLLIN)

    def _show_out_oldest(self) -> None:
        lines = [line for line, _ in self._guests.values()]
        introduced = [line for line in lines if line in self._introduced]
        others = [line for line in lines if line not in self._introduced]
        # One of the larger class goes: neither silent guests nor those that claim to be ranks can take all
        # places.
        self.show_out(max(introduced, others, key=len)[0])

    def introduce(self, line: Line) -> None:
        """This guest may be a rank: it is not replaced while other guests are more numerous."""
        self._introduced.add(line)

    def admit(self, line: Line) -> None:
        """This guest is a rank; the caller takes over its line."""
        del self._guests[line.sock.fileno()]
        self._poll.unregister(line.sock)
        self._introduced.discard(line)
        line.stranger = False

    def show_out(self, line: Line) -> None:
        """This guest is not of the group."""
        self.admit(line)
        line.sock.close()

    def __enter__(self) -> Door:
        return self

    def __exit__(self, *error: object) -> None:
        for line, _ in list(self._guests.values()):
            self.show_out(line)
