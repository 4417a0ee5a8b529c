# SPDX-License-Identifier: BSD-2-Clause
"""Messages with headers to and from several ranks concurrently, for a dedicated thread."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ....transport import Request, Transport
from .envelope import Envelope, Kind
from .legs import Data

Deliver = Callable[[int, Envelope, "Data | None"], bool]
"""Handles a message from a rank. Returns whether more may follow from there."""


class MalformedMessage(ValueError):
    """One rank received from another a message that no healthy rank sends. The text names both."""


class _Listener:
    """The input from one rank: a header, its data if any, then the next header."""

    def __init__(self, peer: int, room: int) -> None:
        self.peer = peer
        self.buffer = bytearray(room)
        self.envelope: Envelope | None = None
        self.data: Data | None = None


class Links:
    """Sends and receives messages of one rank.

    Parameters
    ----------
    room
        Length of the longest header in bytes.
    most
        Most bytes of data that a message may announce. More makes the header malformed.
    tagged
        Kinds whose data are sent as floats on marked connections.
    deliver
        Called for each message, in `poll`. A ``ValueError`` in it means that the message is malformed.
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
        """True if a send or a receive is in flight."""
        return bool(self._sending or self._listening)

    def send(
        self, peer: int, envelope: Envelope, data: Data | None = None, sent: Callable[[], None] | None = None
    ) -> None:
        """Begin to send. The data must keep their values until ``sent`` is called."""
        header = envelope.pack()
        request = self.transport.isend(peer, header)
        self._sending[request] = (header, sent if data is None else None)
        if data is not None:
            request = self.transport.isend(peer, data, tagged=envelope.kind in self._tagged)
            self._sending[request] = (data, sent)

    def listen(self, peer: int) -> None:
        """Begin to receive messages from a rank."""
        self._next(_Listener(peer, self._room))

    def _next(self, listener: _Listener) -> None:
        listener.envelope = listener.data = None
        self._listening[self.transport.irecv_into(listener.peer, listener.buffer)] = listener

    def poll(self, timeout: float) -> None:
        """Wait for a transfer, `Transport.wake` or the end of ``timeout``; deliver received messages.

        Raises `MalformedMessage` for one that is malformed.
        """
        for request in self.transport.wait_any([*self._sending, *self._listening], timeout):
            if request in self._sending:
                _, sent = self._sending.pop(request)
                if sent is not None:
                    sent()
            else:
                listener, length = self._listening.pop(request), request.wait()
                try:
                    self._received(listener, length)
                except ValueError as problem:
                    raise MalformedMessage(
                        f"rank {self.transport.rank} received a malformed message from rank {listener.peer}: "
                        f"{problem}"
                    ) from problem

    def _received(self, listener: _Listener, length: int) -> None:
        if listener.envelope is None:
            listener.envelope = Envelope.unpack(memoryview(listener.buffer)[:length])
            if size := listener.envelope.data:
                if size > self._most:
                    raise ValueError(f"it announces {size} bytes, more than {self._most}")
                listener.data = np.empty(size, np.uint8)
                tagged = listener.envelope.kind in self._tagged
                request = self.transport.irecv_into(listener.peer, listener.data, tagged=tagged)
                self._listening[request] = listener
                return
        elif listener.data is not None and length != listener.data.size:
            raise ValueError(f"{length} bytes, announced were {listener.data.size}")
        envelope, data = listener.envelope, listener.data
        if self._deliver(listener.peer, envelope, data):
            self._next(listener)
