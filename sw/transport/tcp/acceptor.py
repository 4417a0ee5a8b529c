# SPDX-License-Identifier: BSD-2-Clause
"""Accepting connections at a port that any process can reach, with limits on their number and time."""

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
"""Connections that the kernel holds until they are accepted (limited by ``net.core.somaxconn``)."""
MAX_CANDIDATES = 128
"""Most candidates that are open at a time; a new one replaces an old one."""
CANDIDATE_SECONDS = 10.0
"""Seconds after which a candidate is closed."""
_FULL = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


def accepted(listener: socket.socket) -> tuple[socket.socket, tuple[Any, ...]] | None:
    """Accept a connection and return it with its source address. None if none is waiting.

    Raises `TransportError`, caused by the ``OSError``, if files or memory run out.
    """
    try:
        return listener.accept()
    except OSError as error:
        if error.errno in _FULL:
            raise TransportError(
                f"no connection can be accepted: {error.strerror}; raise the limit of open files (ulimit -n)"
            ) from error
        return None  # none is waiting, or it is already closed


class Acceptor:
    """Accepts the connections of a listening socket.

    A *candidate* is one that is not yet known to be a rank's. The listening socket becomes non-blocking. The
    control connections of ``control`` are served meanwhile, which may raise `PeerLost`. The exit of the
    context closes the remaining candidates.
    """

    def __init__(self, listener: socket.socket, control: Control | None = None) -> None:
        listener.setblocking(False)
        self._listener, self._control = listener, control
        self._most = max(1, min(MAX_CANDIDATES, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 4))
        self._candidates: dict[int, tuple[Line, float]] = {}
        """Each candidate and its time limit, by descriptor; the oldest first."""
        self._challenged: set[Line] = set()
        self._poll = select.poll()
        self._poll.register(listener, select.POLLIN)
        if control is not None:
            self._poll.register(control.fileno(), select.POLLIN)

    def receive(self, deadline: float) -> list[tuple[Line, dict[str, Any]]]:
        """Wait for objects from candidates and return them. May return [] before the deadline.

        Closes a candidate that sends anything but short objects. Raises `TransportError` if files or memory
        run out even without candidates, and `PeerLost` from ``control``.
        """
        now = time.monotonic()
        for line, until in list(self._candidates.values()):
            if until <= now:
                self.reject(line)
        wake = min([deadline, *(until for _, until in self._candidates.values())])
        said: list[tuple[Line, dict[str, Any]]] = []
        ready = [fd for fd, _ in self._poll.poll(max(0.0, wake - now) * 1000 + 1)]
        if self._control is not None and self._control.fileno() in ready:
            self._control.pump()
        for fd in ready:
            if fd in self._candidates:
                line = self._candidates[fd][0]
                try:
                    line.fill()
                    if len(line.lines) > 1:
                        raise ValueError("a candidate must wait for the answer to each object")
                    said += [(line, decoded(one, stranger=True)) for one in line.lines]
                    line.lines.clear()
                except BlockingIOError:
                    continue
                except (OSError, EOFError, ValueError):
                    self.reject(line)
        if self._listener.fileno() in ready:
            self._accept_waiting()
        # Candidates that have been replaced meanwhile are left out.
        return [(line, one) for line, one in said if line.sock.fileno() in self._candidates]

    def _accept_waiting(self) -> None:
        # At most half of the candidates are new, so that each is read once before it can be replaced.
        for _ in range((self._most + 1) // 2):
            try:
                found = accepted(self._listener)
            except TransportError:
                if not self._candidates:
                    raise
                self._reject_oldest()
                continue
            if found is None:
                return
            if len(self._candidates) >= self._most:
                self._reject_oldest()
            line = Line(found[0], 0.0)
            self._candidates[found[0].fileno()] = line, time.monotonic() + CANDIDATE_SECONDS
            self._poll.register(found[0], select.POLLIN)

    def _reject_oldest(self) -> None:
        lines = [line for line, _ in self._candidates.values()]
        challenged = [line for line in lines if line in self._challenged]
        others = [line for line in lines if line not in self._challenged]
        # The larger class loses its oldest member. So neither silent candidates nor challenged ones can take
        # all places.
        self.reject(max(challenged, others, key=len)[0])

    def mark_challenged(self, line: Line) -> None:
        """Mark a candidate that owes a proof.

        It is not replaced while the other candidates are more numerous.
        """
        self._challenged.add(line)

    def admit(self, line: Line) -> None:
        """Admit the candidate as a rank; the caller takes over its line."""
        del self._candidates[line.sock.fileno()]
        self._poll.unregister(line.sock)
        self._challenged.discard(line)
        line.trust()

    def reject(self, line: Line) -> None:
        """Close a candidate that is not of the group."""
        self.admit(line)
        line.sock.close()

    def __enter__(self) -> Acceptor:
        return self

    def __exit__(self, *error: object) -> None:
        for line, _ in list(self._candidates.values()):
            self.reject(line)
