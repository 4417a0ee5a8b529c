# SPDX-License-Identifier: BSD-2-Clause
"""Messages with headers to and from several ranks concurrently, for a dedicated thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ....transport import Request, Transport
from .envelope import Envelope, Kind
from .legs import Data

Deliver = Callable[[int, Envelope, "Data | None"], bool]
"""What to do with a message of a rank; whether more may come from there."""


class _Listener:
    """What comes from one rank: a header, its data if any, then the next header."""

    def __init__(self, peer: int, room: int) -> None:
        self.peer = peer
        self.buffer = bytearray(room)
        self.envelope: Envelope | None = None
        self.data: Data | None = None


class Links:
    """Connections of one rank to those it listens to or sends to.

    Parameters
    ----------
    room
        Bytes of the longest header.
    most
        Bytes of data that a message may announce; more is taken for a malformed header.
    tagged
        Kinds whose data travel as floats on marked connections.
    deliver
        Called for each message, in `poll`.
    """

    def __init__(
        self, transport: Transport, room: int, most: int, tagged: set[Kind], deliver: Deliver
    ) -> None:
        self.transport = transport
        self._room, self._most, self._tagged, self._deliver = room, most, tagged, deliver
        self._sending: dict[Request, tuple[Any, Callable[[], None] | None]] = {}
        self._listening: dict[Request, _Listener] = {}

    @property
    def busy(self) -> bool:
        """Whether something is being sent, or listened for."""
        return bool(self._sending or self._listening)

    def send(
        self, peer: int, envelope: Envelope, data: Data | None = None, sent: Callable[[], None] | None = None
    ) -> None:
        """Begins to send; the data must keep their values until ``sent`` is called."""
        header = envelope.pack()
        request = self.transport.isend(peer, header)
        self._sending[request] = (header, sent if data is None else None)
        if data is not None:
            request = self.transport.isend(peer, data, tagged=envelope.kind in self._tagged)
            self._sending[request] = (data, sent)

    def listen(self, peer: int) -> None:
        """Begins to take messages from a rank."""
        self._next(_Listener(peer, self._room))

    def _next(self, listener: _Listener) -> None:
        listener.envelope = listener.data = None
        self._listening[self.transport.irecv_into(listener.peer, listener.buffer)] = listener

    def poll(self, timeout: float) -> None:
        """Waits until something moves, or `Transport.wake`, or the time is over; delivers what has come."""
        for request in self.transport.wait_any([*self._sending, *self._listening], timeout):
            if request in self._sending:
                _, sent = self._sending.pop(request)
                if sent is not None:
                    sent()
            else:
                self._received(self._listening.pop(request), request.wait())

    def _received(self, listener: _Listener, length: int) -> None:
        if listener.envelope is None:
            listener.envelope = Envelope.unpack(memoryview(listener.buffer)[:length])
            if size := listener.envelope.data:
                if size > self._most:
                    raise ValueError(f"rank {listener.peer} announces {size} bytes, more than {self._most}")
                listener.data = np.empty(size, np.uint8)
                tagged = listener.envelope.kind in self._tagged
                request = self.transport.irecv_into(listener.peer, listener.data, tagged=tagged)
                self._listening[request] = listener
                return
        elif listener.data is not None and length != listener.data.size:
            raise ValueError(f"rank {listener.peer} sent {length} bytes for {listener.data.size}")
        envelope, data = listener.envelope, listener.data
        if self._deliver(listener.peer, envelope, data):
            self._next(listener)
