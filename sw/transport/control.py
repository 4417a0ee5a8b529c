# SPDX-License-Identifier: BSD-2-Clause
"""The control connections of a TCP group: untagged, from every rank to rank 0, JSON objects line by line.

Over them the group forms (`rendezvous`), small objects are exchanged, and the loss of a rank becomes known to
all: rank 0 passes it on.
"""

from __future__ import annotations

import json
import select
import socket
from typing import Any

from inceptionn.transport.base import PeerLost

PROTOCOL = 1
"""Version of what goes over control and message connections; all ranks must have the same."""
MAX_LINE = 1 << 24
"""Longest object, in bytes, that is taken for one."""


class Line:
    """JSON objects over one socket."""

    def __init__(self, sock: socket.socket, timeout: float) -> None:
        self.sock = sock
        self._partial = bytearray()
        sock.settimeout(timeout)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, value: Any) -> None:
        """Sends one object; ``OSError`` if the other end is gone or takes nothing."""
        self.sock.sendall(json.dumps(value, separators=(",", ":")).encode() + b"\n")

    def receive(self, limit: int = MAX_LINE) -> list[Any]:
        """The objects that one read completes; call it when the socket is readable.

        ``EOFError`` at the end of the connection, ``ValueError`` for what is not this protocol.
        """
        data = self.sock.recv(1 << 16)
        if not data:
            raise EOFError
        *lines, rest = (self._partial + data).split(b"\n")
        self._partial = rest
        if len(rest) > limit:
            raise ValueError("line too long")
        return [json.loads(line) for line in lines]


class Control:
    """A rank's end of the control connections once the group exists.

    ``lines``: at rank 0 one per other rank, elsewhere one to rank 0. ``fileno`` is readable when `pump` has
    something to do.
    """

    def __init__(self, rank: int, size: int, lines: dict[int, Line]) -> None:
        self.rank, self.size = rank, size
        self._lines = lines
        self._epoll = select.epoll()
        self._by_fd = {line.sock.fileno(): peer for peer, line in lines.items()}
        for fd in self._by_fd:
            self._epoll.register(fd, select.EPOLLIN)
        self._rounds: dict[int, dict[int, Any]] = {}
        self.answers: dict[int, list[Any]] = {}
        self.departed: set[int] = set()
        """Ranks that have closed in good order."""
        self.said: str | None = None
        """Why the group is broken, in the words of the rank that knew first."""

    def fileno(self) -> int:
        """Descriptor to poll for reading."""
        return self._epoll.fileno()

    def contribute(self, number: int, value: Any) -> None:
        """This rank's value of an exchange."""
        if self.rank == 0:
            self._collect(number, 0, value)
        else:
            self._to(0, {"round": number, "value": value})

    def missing(self, number: int) -> set[int]:
        """Departed ranks that an exchange still needs."""
        if self.rank == 0:
            return self.departed - self._rounds.get(number, {}).keys()
        return set(self.departed)

    def pump(self, timeout: float = 0.0) -> bool:
        """Takes what has come; whether anything had. `PeerLost` once a rank is lost or has given up."""
        ready = self._epoll.poll(timeout)
        for fd, _ in ready:
            peer = self._by_fd[fd]
            try:
                for said in self._lines[peer].receive():
                    self._take(peer, said)
            except (OSError, EOFError, ValueError) as error:
                self._drop(peer)
                if peer not in self.departed:
                    detail = "" if isinstance(error, EOFError) else f" ({error})"
                    self._break(f"rank {peer} is lost: its control connection ended{detail}")
        if self.said is not None:
            raise PeerLost(self.said)
        return bool(ready)

    def _take(self, peer: int, said: dict[str, Any]) -> None:
        if "value" in said:
            self._collect(said["round"], peer, said["value"])
        elif "values" in said:
            self.answers[said["round"]] = said["values"]
        elif "broken" in said:
            self._break(said["broken"])
        elif "bye" in said:
            self.departed.add(peer)

    def _collect(self, number: int, peer: int, value: Any) -> None:
        values = self._rounds.setdefault(number, {})
        values[peer] = value
        if len(values) == self.size:
            del self._rounds[number]
            self.answers[number] = [values[rank] for rank in range(self.size)]
            self._to_all({"round": number, "values": self.answers[number]})

    def _break(self, reason: str) -> None:
        """Notes why, and passes it on the first time."""
        if self.said is None:
            self.said = reason
            if self.rank == 0:
                self._to_all({"broken": reason})

    def abort(self, reason: str) -> None:
        """Tells the others, if they do not know yet."""
        if self.said is None:
            self.said = reason
            self._to_all({"broken": reason})

    def close(self) -> None:
        """Says good-bye and closes."""
        if self.said is None:
            self._to_all({"bye": self.rank})
        for peer in list(self._lines):
            self._drop(peer)
        self._epoll.close()

    def _drop(self, peer: int) -> None:
        line = self._lines.pop(peer)
        self._epoll.unregister(line.sock.fileno())
        line.sock.close()

    def _to(self, peer: int, value: Any) -> None:
        try:
            self._lines[peer].send(value)
        except (OSError, KeyError):
            if peer not in self.departed:
                self._break(f"rank {peer} is lost: its control connection does not take what is sent")

    def _to_all(self, value: Any) -> None:
        for peer in list(self._lines):
            self._to(peer, value)
