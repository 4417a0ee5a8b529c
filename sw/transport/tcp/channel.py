# SPDX-License-Identifier: BSD-2-Clause
"""One non-blocking TCP connection to one peer, with a queue of sends and a queue of receives."""

import errno
import select
import socket
import struct
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from itertools import islice

from ..base import PeerLost, Request, TransportError

_HEADER = struct.Struct("<Q")
"""The header of every message is its length in bytes."""

_GATHER = 16
"""Most messages in one system call."""

_LOW_WATER = 1 << 17
"""A waiting receive is woken once this number of bytes, or its rest, has arrived, not for each packet."""

Waiter = Callable[["Transfer", "float | None"], None]


class Transfer(Request):
    """A send or a receive of a `Channel`."""

    __slots__ = ("_wait", "done", "length", "moved", "peer", "view")

    def __init__(self, peer: int, view: memoryview, wait: Waiter) -> None:
        self.peer, self.view = peer, view
        self.length = view.nbytes
        self.moved = 0
        self.done = False
        self._wait = wait

    def test(self) -> bool:
        if not self.done:
            self._wait(self, 0.0)
        return self.done

    def wait(self, timeout: float | None = None) -> int:
        if not self.done:
            self._wait(self, timeout)
        return self.length


class Channel:
    """A connection to ``peer``.

    With ``framed``, every message is preceded by its length, so a message may be shorter than its receive's
    buffer. Otherwise the connection carries only data, and a receive is complete when its buffer is full.
    """

    def __init__(self, sock: socket.socket, peer: int, framed: bool) -> None:
        self.sock, self.peer, self.framed = sock, peer, framed
        sock.setblocking(False)
        self.sends: deque[Transfer] = deque()
        self.receives: deque[Transfer] = deque()
        self._parts: deque[memoryview] = deque()
        """Headers and payloads that are still to be sent. `_ends` counts the parts of each message."""
        self._ends: deque[int] = deque()
        self._header = memoryview(bytearray(_HEADER.size))
        self._have = 0 if framed else _HEADER.size
        self._length: int | None = None
        """The length of the arriving message, once its header has arrived."""
        self._low_water = 1
        self.polled = 0
        """The events for which the transport polls this connection."""

    @property
    def busy(self) -> bool:
        """True if sends or receives are queued."""
        return bool(self.sends or self.receives)

    def post_send(self, transfer: Transfer) -> None:
        """Queue a send and write as much as the kernel accepts at once."""
        view = transfer.view
        idle = not self.sends
        if not view.nbytes and not self.framed:
            transfer.done = True
            return
        if self.framed:
            self._parts.append(memoryview(_HEADER.pack(view.nbytes)))
        if view.nbytes:
            self._parts.append(view)
        self._ends.append(self.framed + bool(view.nbytes))
        self.sends.append(transfer)
        if idle:
            self.flush()

    def post_receive(self, transfer: Transfer) -> None:
        """Queue a receive."""
        if not transfer.view.nbytes and not self.framed:
            transfer.done = True
            return
        self.receives.append(transfer)
        if self.framed and self._have == _HEADER.size and len(self.receives) == 1:
            self.fill()  # its header arrived with the previous message, and it may be empty

    def flush(self) -> None:
        """Send as much as the kernel accepts. Raise `PeerLost` if the connection is lost."""
        parts = self._parts
        while parts:
            try:
                sent = self.sock.sendmsg(islice(parts, _GATHER))
            except BlockingIOError:
                return
            except OSError as error:
                raise self._lost(error) from error
            while sent:
                first = parts[0]
                if sent < first.nbytes:
                    parts[0] = first[sent:]
                    return  # the kernel takes no more for now
                sent -= first.nbytes
                parts.popleft()
                self._ends[0] -= 1
                if not self._ends[0]:
                    self._ends.popleft()
                    self.sends.popleft().done = True

    def fill(self) -> None:
        """Move arrived data into the queued receives.

        Raises `PeerLost` at the end of the connection, and `TransportError` for a message that is longer than
        its buffer.
        """
        while self.receives:
            transfer = self.receives[0]
            if self._length is None and not self._open(transfer):
                return
            assert self._length is not None
            rest = self._length - transfer.moved
            if rest:
                # The next message's header is read together with the end of this one, which saves a system
                # call.
                into: list[memoryview] = [transfer.view[transfer.moved : self._length]]
                if self._have < _HEADER.size:
                    into.append(self._header[self._have :])
                got = self._receive(into)
                if not got:
                    return
                transfer.moved += min(got, rest)
                self._have += max(0, got - rest)
                if got < rest:
                    return  # there is no more for now
            transfer.length = self._length
            transfer.done = True
            self._length = None
            self.receives.popleft()

    def _open(self, transfer: Transfer) -> bool:
        """Begin the next message; False if its header is not complete yet."""
        if not self.framed:
            self._length = transfer.view.nbytes
            return True
        while self._have < _HEADER.size:
            got = self._receive([self._header[self._have :]])
            if not got:
                return False
            self._have += got
        length = _HEADER.unpack(self._header)[0]
        if length > transfer.view.nbytes:
            raise TransportError(
                f"rank {self.peer} sent a message of {length} bytes to a buffer of {transfer.view.nbytes}"
            )
        self._length, self._have = length, 0
        return True

    def _receive(self, into: list[memoryview]) -> int:
        """Receive, and return the number of bytes; 0 if there are none now."""
        try:
            got = self.sock.recvmsg_into(into)[0]
        except BlockingIOError:
            return 0
        except OSError as error:
            raise self._lost(error) from error
        if not got:
            raise PeerLost(f"rank {self.peer} is lost: it closed its connection")
        return got

    def _lost(self, error: OSError) -> PeerLost:
        name = errno.errorcode.get(error.errno or 0, "")
        return PeerLost(f"rank {self.peer} is lost: {error.strerror or error} ({name})")

    def awaited(self) -> int:
        """Return the events to poll for: readable for a receive, writable for a send.

        Tells the kernel to wake a receive for a large amount of data, not for each packet (SO_RCVLOWAT).
        """
        writable = select.POLLOUT if self.sends else 0
        if not self.receives:
            return writable
        rest = 1 if self._length is None else self._length - self.receives[0].moved
        low_water = min(max(1, rest), _LOW_WATER)
        if low_water != self._low_water:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, low_water)
            self._low_water = low_water
        return select.POLLIN | writable

    def close(self, *, reset: bool = False) -> None:
        """Close the connection. With ``reset`` the peer notices at once, and queued data is dropped."""
        if reset:
            with suppress(OSError):
                self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()
