# SPDX-License-Identifier: BSD-2-Clause
"""A group over TCP, with one process (or thread) per rank, on one host or on many.

Every two ranks share one connection for messages. Where NICs may be present, they share a second one; its
packets carry the ToS mark and only fp32 values. Every rank also has an untagged control connection to rank 0
(`control`). No thread runs in the background; data moves while a rank waits for a request.
"""

import json
import os
import select
import socket
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from typing import Any

from ..base import (
    BytesLike,
    PeerLost,
    Request,
    RunningClock,
    Transport,
    TransportError,
    TransportTimeout,
    bytes_of,
    ranks_text,
)
from .channel import Channel, Transfer
from .control import Control
from .line import check_depth

_EXPLANATION = 1.0
"""Seconds that a rank waits for rank 0 to name the cause, after it lost a connection or timed out."""


class TcpTransport(Transport):
    """One rank of a group over TCP; `connect` makes it."""

    def __init__(
        self,
        rank: int,
        size: int,
        timeout: float,
        control: Control,
        messages: dict[int, Channel],
        floats: dict[int, Channel],
    ) -> None:
        self.rank, self.size, self.timeout = rank, size, timeout
        self._control = control
        self._channels = (messages, floats)
        self._busy: dict[int, Channel] = {}
        """Channels with queued requests, by file descriptor; `_poll` holds those that were waited for."""
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._woken = False
        self._poll = select.poll()
        self._poll.register(control.fileno(), select.POLLIN)
        self._poll.register(self._wake, select.POLLIN)
        self._broken: TransportError | None = None
        self._closed = False

    @property
    def floats(self) -> bool:
        return bool(self._channels[True]) or (self.size == 1 and self.nic)

    def sockets(self, *, tagged: bool = False) -> dict[int, socket.socket]:
        """Return the connections by peer, for inspection.

        They are those for messages or, if ``tagged``, those for floats.
        """
        return {peer: channel.sock for peer, channel in self._channels[tagged].items()}

    def isend(self, peer: int, buffer: BytesLike, *, tagged: bool = False) -> Request:
        view = bytes_of(buffer)
        self._check(peer, view, tagged)
        transfer = Transfer(peer, view, self._wait)
        self.bytes_sent += view.nbytes
        self._post(self._channels[tagged][peer], transfer, Channel.post_send)
        return transfer

    def irecv_into(self, peer: int, buffer: BytesLike, *, tagged: bool = False) -> Request:
        view = bytes_of(buffer, writable=True)
        self._check(peer, view, tagged)
        transfer = Transfer(peer, view, self._wait)
        self._post(self._channels[tagged][peer], transfer, Channel.post_receive)
        return transfer

    def _post(self, channel: Channel, transfer: Transfer, post: Callable[[Channel, Transfer], None]) -> None:
        self._alive()
        try:
            post(channel, transfer)
        except TransportError as error:
            raise self._fail(error) from error.__cause__
        if channel.busy:
            self._busy[channel.sock.fileno()] = channel

    def wait_any(self, requests: Sequence[Request], timeout: float) -> list[Request]:
        self._alive()
        deadline = time.monotonic() + timeout
        try:
            while True:
                done: list[Request] = [r for r in requests if isinstance(r, Transfer) and r.done]
                left = deadline - time.monotonic()
                if done or self._woken or left <= 0:
                    self._woken = False
                    return done
                self._step(left)
        except TransportError as error:
            raise self._fail(error) from error.__cause__

    def wake(self) -> None:
        with suppress(OSError, ValueError):  # the transport is closed, so no rank waits
            os.eventfd_write(self._wake, 1)

    def exchange(self, value: Any) -> list[Any]:
        self._alive()
        try:
            data = json.dumps(value, separators=(",", ":")).encode()
            check_depth(b'{"value":%b}' % data)
        except (RecursionError, ValueError):  # also JSON's for a value that contains itself
            raise TypeError("a value that is nested so deeply cannot be exchanged") from None
        control = self._control

        def answered() -> bool:
            if control.answer is not None:
                return not control.pending  # this rank must still send the rest
            if gone := control.missing():
                raise PeerLost(f"rank {min(gone)} has closed its transport")
            return False

        try:
            control.contribute(data)
            self._run(answered, self.timeout, "an exchange with all ranks", control.awaited)
        except TransportError as error:
            raise self._fail(error) from error.__cause__
        answer, control.answer = control.answer, None
        assert answer is not None
        return answer

    def waits_for(self, peers: Collection[int]) -> None:
        self._control.wait_for(peers)

    def silent(self, peers: Collection[int]) -> list[int]:
        control = self._control
        before = control.silent  # the answer from half of the time limit
        control.wait_for(peers)
        deadline = time.monotonic() + _EXPLANATION
        while control.silent is None and (left := deadline - time.monotonic()) > 0:
            control.pump(left)
        return control.silent or before or [0]

    def _wait(self, transfer: Transfer, timeout: float | None) -> None:
        self._alive()
        try:
            if timeout == 0.0:
                self._step(0.0)
            else:
                limit = self.timeout if timeout is None else timeout
                what = f"a message from or to rank {transfer.peer}"
                self._run(lambda: transfer.done, limit, what, lambda: {transfer.peer})
        except TransportError as error:
            raise self._fail(error) from error.__cause__

    def _run(
        self, finished: Callable[[], bool], limit: float, what: str, peers: Callable[[], Collection[int]]
    ) -> None:
        """Move data until ``finished()``.

        Raises `TransportTimeout` after ``limit`` seconds without progress.

        ``peers()`` are the ranks that this wait depends on.
        """
        self._control.further = peers
        clock = RunningClock(limit)
        since, told = clock.now(), False
        while not finished():
            try:
                quiet = clock.now() - since
                if quiet >= limit:
                    silent = ranks_text(self.silent(peers()))
                    raise TransportTimeout(
                        f"rank {self.rank} waited for {what}: nothing from {silent} for {limit:g} s"
                    )
                if quiet >= limit / 2 and not told:
                    told = True
                    self.waits_for(peers())
                if self._step(min((limit if told else limit / 2) - quiet, clock.step)):
                    since = clock.now()
                    if told:
                        told = False
                        self.waits_for(())
            except PeerLost:
                if finished():
                    return  # the request is complete; the next call reports the loss
                raise
        self._control.further = None

    def _mute_floats(self) -> None:
        """Stop waiting on the connections for floats."""
        for channel in self._channels[True].values():
            self._rest(channel)

    def _drop_floats(self) -> None:
        """Close the connections for floats."""
        self._mute_floats()
        for channel in self._channels[True].values():
            channel.close(reset=True)
        self._channels[True].clear()

    def _await(self, requests: list[Request], limit: float) -> None:
        """Move data until all requests are complete or nothing moves for ``limit`` seconds."""
        since = time.monotonic()
        while not all(isinstance(r, Transfer) and r.done for r in requests):
            left = since + limit - time.monotonic()
            if left <= 0:
                return
            if self._step(left):
                since = time.monotonic()

    def _step(self, timeout: float) -> bool:
        """Wait until a connection is ready and move its data.

        Returns False if no data moved within ``timeout``. A call of `wake` also ends the wait.
        """
        for fd, channel in self._busy.items():
            if (events := channel.awaited()) != channel.polled:
                self._poll.register(fd, events)
                channel.polled = events
        moved = news = False
        for fd, events in self._poll.poll(timeout * 1000):
            if fd in self._busy:
                channel, moved = self._busy[fd], True
                if channel.sends and events & ~select.POLLIN:
                    channel.flush()
                if channel.receives and events & ~select.POLLOUT:
                    channel.fill()
                if not channel.busy:
                    self._rest(channel)
            elif fd == self._wake:
                os.eventfd_read(self._wake)
                self._woken = True
            else:
                news = True
        if news:  # after the data: a rank that is lost may have sent all that was awaited
            moved |= self._control.pump()
        return moved

    def _rest(self, channel: Channel) -> None:
        """Stop waiting on a connection, until it is busy again."""
        fd = channel.sock.fileno()
        self._busy.pop(fd, None)
        if channel.polled:
            self._poll.unregister(fd)
            channel.polled = 0

    def _alive(self) -> None:
        self.check_process()
        if self._broken is not None:
            raise type(self._broken)(str(self._broken))
        if self._closed:
            raise TransportError("the transport is closed")

    def _fail(self, error: TransportError) -> TransportError:
        """Break the group because of an error; return the error to raise.

        It names the first cause if that is known.
        """
        control = self._control
        if isinstance(error, PeerLost):
            deadline = time.monotonic() + _EXPLANATION
            with suppress(PeerLost):
                while control.said is None and (left := deadline - time.monotonic()) > 0:
                    control.pump(left)
            if control.said is not None:
                error = PeerLost(control.said)  # a closed connection may be a consequence of an earlier loss
        self._shut(str(error))
        self._broken = error
        return error

    def abort(self, reason: str) -> None:
        if self.forked:
            self.close()
        elif not self._closed:
            self._shut(f"rank {self.rank} gave up: {reason}")
            self._broken = TransportError(f"the transport was given up: {reason}")

    def _shut(self, reason: str) -> None:
        self._control.abort(reason)
        self._finish(reset=True)

    def close(self) -> None:
        if not self._closed:
            self._finish(reset=False)

    def _finish(self, reset: bool) -> None:
        self._closed = True
        self._busy.clear()
        wake, self._wake = self._wake, -1
        if wake >= 0:  # -1 if another thread finishes at the same time
            os.close(wake)
        self._control.close(silently=self.forked)
        for channels in self._channels:
            for channel in channels.values():
                channel.close(reset=reset)
