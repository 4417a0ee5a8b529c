# SPDX-License-Identifier: BSD-2-Clause
"""The control connections of a TCP group. They lead from every rank to rank 0 and carry JSON objects.

The group forms over them (`rendezvous`), and `Transport.exchange` uses them. They are never tagged. Rank 0
tells all ranks about a lost one. It also knows which rank waits for which, so that a time-out can name the
rank that delays the others.
"""

import json
import select
import socket
import struct
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Any

from ...system.text import printable
from ..base import PeerLost, TransportError, ranks_text, silent_of
from .line import Form, Line, anything, checked, decoded, ranks, shortened, text, whole

PROTOCOL = 7
"""Version of the protocol on control and message connections; all ranks must have the same."""
MAX_VALUE = (1 << 24) - (1 << 19)
"""Length of the longest value that a rank may exchange, in bytes of JSON. A line also names its ranks."""
_DRAIN = 1.0
"""Seconds that a closing rank waits until the others have received its last objects."""
_VANISHED = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 10),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5),
    (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 30_000),
)
"""A host is lost if its kernel answers nothing for 30 s. The kernel of a busy rank still answers."""

_FORMS: tuple[Form, ...] = (
    {"round": whole, "rank": whole, "value": anything},  # to rank 0
    {"round": whole, "ranks": ranks, "value": anything},  # from it: all that have this value
    {"broken": text},
    {"bye": whole},
    {"waits": ranks},
    {"silent": ranks},
)
_FORM_OF = {frozenset(form): form for form in _FORMS}


_MIN_RTT = struct.Struct("148xI")
"""Of Linux's struct tcp_info: microseconds; the largest number if none is known."""


def _round_trip(sock: socket.socket) -> float:
    """Return the shortest round trip of a connection in seconds, 0 if the system does not tell it."""
    try:
        (found,) = _MIN_RTT.unpack(sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _MIN_RTT.size))
    except (OSError, AttributeError, struct.error):  # closed, or not Linux
        return 0.0
    return 1e-6 * found if found < 2**31 else 0.0


class Control:
    """A rank's end of the control connections, once the group exists.

    ``lines`` holds one line per other rank at rank 0, and only the line to rank 0 elsewhere. They become
    non-blocking. `fileno` is readable when `pump` has something to do.
    """

    def __init__(self, rank: int, size: int, lines: dict[int, Line]) -> None:
        self.rank, self.size = rank, size
        self._lines = lines
        self._epoll = select.epoll()
        self._by_fd = {line.sock.fileno(): peer for peer, line in lines.items()}
        self._writing: set[int] = set()
        """Peers whose lines are polled for writing."""
        self._round = 0
        self._values: dict[int, tuple[Any, bytes]] = {}
        """Each rank's contribution to the current exchange; at rank 0 also its text, to be passed on."""
        self.answer: list[Any] | None = None
        """All ranks' values of the last exchange, until the reader clears it."""
        self.departed: set[int] = set()
        """Ranks that have closed their transport without an error."""
        self.said: str | None = None
        """Why the group is broken, as reported by the first rank that knew."""
        self.further: Callable[[], Collection[int]] | None = None
        """Returns the ranks that this rank is waiting for now; used at rank 0."""
        self.silent: list[int] | None = None
        """Rank 0's answer to `wait_for`."""
        self._waits: dict[int, list[int]] = {}
        self._asking: set[int] = set()
        """Ranks that have asked for `silent` and not read what was sent to them before. Each has one answer
        coming, whatever it asks meanwhile, so that a rank that never reads costs no memory.
        """
        self._moved = False
        """True if an exchange has advanced in this `pump`."""
        for peer, line in lines.items():
            line.sock.setblocking(False)
            for level, option, value in _VANISHED:
                line.sock.setsockopt(level, option, value)
            self._epoll.register(line.sock.fileno(), select.EPOLLIN)
            self._watch(peer)  # the rest of a long welcome
            self._hear(peer)  # objects that arrived with the welcome

    def fileno(self) -> int:
        """Return the descriptor to poll for reading."""
        return self._epoll.fileno()

    @property
    def latency(self) -> float:
        """Half of the longest of the connections' shortest round trips, in seconds."""
        return max((_round_trip(line.sock) / 2 for line in self._lines.values()), default=0.0)

    @property
    def pending(self) -> set[int]:
        """Ranks to which bytes are still to be sent."""
        return {peer for peer, line in self._lines.items() if line.pending}

    def contribute(self, data: bytes) -> None:
        """Send this rank's value, as JSON, for the next exchange.

        Raises `TransportError` if it is too long.
        """
        if len(data) > MAX_VALUE:
            raise TransportError(
                f"rank {self.rank}'s value of an exchange takes {len(data)} bytes as JSON, more than "
                f"{MAX_VALUE}: send data as messages"
            )
        if self.rank == 0:
            self._collect([0], json.loads(data), data)
        else:
            self._to(0, b'{"round":%d,"rank":%d,"value":%b}\n' % (self._round, self.rank, data))

    def awaited(self) -> set[int]:
        """Return the ranks that the current exchange still waits for, after this rank has contributed."""
        if self.rank:
            return {0}
        return self.pending if self.answer is not None else set(range(self.size)) - self._values.keys()

    def missing(self) -> set[int]:
        """Return the departed ranks that the exchange still needs."""
        return self.departed - self._values.keys() if self.rank == 0 else set(self.departed)

    def pump(self, timeout: float = 0.0) -> bool:
        """Send and receive what is possible within ``timeout`` seconds.

        Returns whether an exchange has advanced. Raises `PeerLost` once a rank is lost or has given up.
        """
        self._moved = False
        for fd, events in self._epoll.poll(0.0 if self.said else timeout):
            peer = self._by_fd[fd]
            if peer not in self._lines:
                continue  # dropped since the poll
            line = self._lines[peer]
            try:
                if events & select.EPOLLOUT:
                    line.flush()
                    self._moved = True
                    if peer in self._asking and not line.pending:
                        self._asking.remove(peer)
                        self._note(peer, self._waits.get(peer, []))
                if events & ~select.EPOLLOUT:
                    line.fill()
                    self._moved |= not line.lines  # a part of a long value
            except BlockingIOError:
                continue
            except (OSError, EOFError, ValueError) as error:
                self._hear(peer)
                self._lost(peer, error)
                continue
            self._hear(peer)
            self._watch(peer)
        if self.said is not None:
            raise PeerLost(self.said)
        return self._moved

    def _hear(self, peer: int) -> None:
        """Handle the complete lines of a peer."""
        line = self._lines.get(peer)
        while line is not None and line.lines:
            raw = line.lines.popleft()
            try:
                self._take(peer, raw)
            except ValueError as error:
                self._lost(peer, error)
                return

    def _take(self, peer: int, raw: bytearray) -> None:
        said = decoded(raw)
        form = _FORM_OF.get(frozenset(said))
        if form is None:
            raise ValueError(f"no known object has the fields {sorted(said)!r:.60}")
        checked(said, form)
        if "value" in said:
            whose = said.get("ranks", [said.get("rank")])
            wrong = whose != [peer] if self.rank == 0 else "rank" in said or not whose
            if wrong or said["round"] != self._round:
                raise ValueError(f"a value of {ranks_text(whose)}, round {said['round']}, was not expected")
            self._collect(whose, said["value"], self._text_of(peer, raw) if self.rank == 0 else b"")
        elif "broken" in said:
            self._break(said["broken"], tell=self.rank == 0)
        elif "bye" in said:
            self.departed.add(peer)
        elif "waits" in said:
            if len(said["waits"]) > self.size or any(rank >= self.size for rank in said["waits"]):
                raise ValueError("it waits for ranks that do not exist")
            self._note(peer, said["waits"])
        else:
            self.silent = said["silent"]

    def _text_of(self, peer: int, raw: bytearray) -> bytes:
        """Return the text of a rank's value. ``ValueError`` unless its line is as `contribute` makes it."""
        begin = b'{"round":%d,"rank":%d,"value":' % (self._round, peer)
        if not raw.startswith(begin) or len(raw) - len(begin) > MAX_VALUE:
            raise ValueError("a value is too long, or its line is not as this version writes it")
        found = bytes(raw[len(begin) : -1])
        json.loads(found)  # no second "rank" or "round", for which the others would blame rank 0
        return found

    def _collect(self, whose: list[int], value: Any, value_text: bytes) -> None:
        for rank in whose:
            if rank in self._values or rank >= self.size:
                raise ValueError(f"rank {rank} sent a second value, or does not exist")
            self._values[rank] = value, value_text
        self._moved = True
        if len(self._values) < self.size:
            return
        found = [self._values[rank] for rank in range(self.size)]
        self.answer = [value for value, _ in found]
        if self.rank == 0:
            self._to_all(_answer(self._round, [value_text for _, value_text in found]))
        self._values = {}
        self._round += 1

    def wait_for(self, peers: Collection[int]) -> None:
        """Tell rank 0 which ranks this rank waits for; () means none.

        Rank 0's answer is stored in `silent`.
        """
        self.silent = None
        if self.rank == 0:
            self._note(0, list(peers))
        else:
            self._to(0, {"waits": sorted(peers)})

    def _note(self, rank: int, peers: list[int]) -> None:
        self._waits.pop(rank, None)
        if not peers:
            return
        self._waits[rank] = peers
        if rank in self._lines and self._lines[rank].pending:
            self._asking.add(rank)
            return
        further = {} if self.further is None else {0: self.further()}
        answer = silent_of(peers, {**self._waits, **further})
        if rank == 0:
            self.silent = answer
        else:
            self._to(rank, {"silent": answer})

    def _lost(self, peer: int, error: Exception) -> None:
        """Handle a line that has ended or violated the protocol."""
        if isinstance(error, ValueError):
            self._break(f"rank {peer} sent something that is not a control object: {error}")
        elif peer not in self.departed:
            detail = "" if isinstance(error, EOFError) else f" ({error})"
            self._break(f"rank {peer} is lost: its control connection ended{detail}")
        self._drop(peer)

    def _break(self, reason: str, *, tell: bool = True) -> None:
        """Record the first reason and, with ``tell``, tell the other ranks."""
        if self.said is None:
            self.said = printable(shortened(reason))
            if tell:
                self._to_all({"broken": self.said})

    def abort(self, reason: str) -> None:
        """Tell the other ranks why this one gives up, unless the group is already broken."""
        self._break(reason)

    def close(self, *, silently: bool = False) -> None:
        """Tell the other ranks that this one leaves, and close the connections.

        ``silently``: only free this process's copies of connections, of which its parent has others.
        """
        if silently:
            self._epoll.close()  # the parent's, too, which still polls
            for line in self._lines.values():
                line.sock.close()
            self._lines.clear()
            return
        if self.said is None:
            self._to_all({"bye": self.rank})
        deadline = time.monotonic() + _DRAIN
        for peer, line in list(self._lines.items()):
            with suppress(OSError):
                line.drain(deadline)
            self._drop(peer)
        self._epoll.close()

    def _drop(self, peer: int) -> None:
        line = self._lines.pop(peer, None)
        if line is not None:
            self._writing.discard(peer)
            self._epoll.unregister(line.sock.fileno())
            line.sock.close()

    def _watch(self, peer: int) -> None:
        """Poll a line for writing while bytes are pending."""
        line = self._lines.get(peer)
        if line is not None and line.pending != (peer in self._writing):
            self._writing ^= {peer}
            self._epoll.modify(line.sock.fileno(), select.EPOLLIN | (select.EPOLLOUT if line.pending else 0))

    def _to(self, peer: int, value: Any) -> None:
        line = self._lines.get(peer)
        try:
            if line is None:
                raise ConnectionResetError
            if isinstance(value, bytes):
                line.send_encoded(value)
            else:
                line.send(value)
            self._watch(peer)
        except OSError:
            self._last_words(peer)
            if peer not in self.departed:
                self._break(f"rank {peer} is lost: its control connection accepts no more data")

    def _last_words(self, peer: int) -> None:
        """Read what a rank sent before it stopped receiving. It often names the rank that failed first."""
        line = self._lines.get(peer)
        with suppress(OSError, EOFError, ValueError):
            while line is not None:
                line.fill()
                self._hear(peer)

    def _to_all(self, value: Any) -> None:
        for peer in list(self._lines):
            self._to(peer, value)


def _answer(number: int, values: list[bytes]) -> bytes:
    """Return the lines with the texts of all ranks' values of a round. Equal ones are sent once."""
    whose: dict[bytes, list[int]] = {}
    for rank, value_text in enumerate(values):
        whose.setdefault(value_text, []).append(rank)
    return b"".join(
        b'{"round":%d,"ranks":[%b],"value":%b}\n' % (number, ",".join(map(str, each)).encode(), value_text)
        for value_text, each in whose.items()
    )
