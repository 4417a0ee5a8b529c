# SPDX-License-Identifier: BSD-2-Clause
"""The interface of every transport: one rank's view of a group of ranks that exchange buffers.

Two kinds of data travel on separate paths and never mix. *Messages* are bytes of any length and keep their
boundaries. *Floats* (``tagged=True``) are fp32 values and nothing else, from the first byte of their
connection on, so that NICs with the engines may process them (``docs/wire-format.md``, section 3). No length
travels with them, so both sides must know it. Small control objects use a third path, `Transport.exchange`.
"""

from __future__ import annotations

import math
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import numpy as np

from ..wire import LANE_BYTES

if TYPE_CHECKING:
    from ..codec import Codec

BytesLike: TypeAlias = bytes | bytearray | memoryview | np.ndarray[Any, Any]
"""The buffers that a transport sends and fills: C-contiguous objects with the buffer interface."""

DEFAULT_TIMEOUT = 300.0
"""Seconds without any progress after which a wait ends in `TransportTimeout`.

It leaves time for a rank that does something else between two calls, such as writing a checkpoint. It detects
ranks that hang; a rank whose process ends is detected at once.
"""


_STEP = 1.0
"""Seconds between two readings of a `RunningClock`."""


class RunningClock:
    """Seconds in which this process ran: those of a stop (Ctrl-Z, a debugger) do not count.

    A job that goes on after a stop of all its ranks must not blame one of them for the silence. A stop shows
    as a gap between two readings, so whoever waits reads the clock every ``step`` seconds.
    """

    def __init__(self, limit: float = math.inf) -> None:
        self.step = min(_STEP, limit / 8)
        self._read, self._stopped = time.monotonic(), 0.0

    def now(self) -> float:
        """Return the time, from any origin. It never goes back."""
        now = time.monotonic()
        gap, self._read = now - self._read, now
        if gap > 4 * self.step:  # more than a busy machine causes
            self._stopped += gap - self.step
        return now - self._stopped


class TransportError(Exception):
    """A group cannot be formed or can no longer be used. The text names the rank and the reason."""


class PeerLost(TransportError):
    """A rank has ended, closed its connections or given up. The text names the rank."""


class TransportTimeout(TransportError):
    """No data has moved for as long as the transport's time-out."""


class Request(ABC):
    """A send or a receive in flight. Call `wait` before its buffer is used again or dropped."""

    @abstractmethod
    def test(self) -> bool:
        """Move the data that can move without waiting; return whether the request is complete.

        Raises the same errors as `wait`.
        """

    @abstractmethod
    def wait(self, timeout: float | None = None) -> int:
        """Block until the request is complete; return the length of the message in bytes.

        ``timeout`` is in seconds without progress; None means the transport's own. Raises `PeerLost`,
        `TransportTimeout`, or `TransportError` for a message that does not fit the buffer.
        """


class Transport(ABC):
    """One rank of a group of ``size`` ranks. Only one thread at a time may use it.

    Attributes: ``rank`` (0..size-1), ``size``, ``timeout`` (seconds that any wait may last without progress),
    ``nic`` (whether the NICs of all ranks compress and restore tagged floats), ``nic_codec`` (the codec of
    those NICs; None without them), ``nic_bf16`` (whether they have bf16 lanes, too), ``latency`` (seconds
    that a message between rank 0 and the rank farthest from it took at least as the group formed, the same at
    all ranks; 0 where it is not known).

    A ``ValueError`` or ``TypeError`` for an argument leaves the group intact. Any other error breaks the
    group, and every further call on every rank raises.

    The group is that of the process that joined it. In a forked child every call raises `TransportError`, but
    `close`, `abort` and the end of a ``with`` leave the parent's group as it is.
    """

    rank: int
    size: int
    timeout: float = DEFAULT_TIMEOUT
    nic_codec: Codec | None = None
    nic_bf16: bool = False
    latency: float = 0.0
    bytes_sent: int = 0
    """Payload bytes given to `isend` so far. Tagged floats count with their size before the NIC."""
    _process: int

    def __new__(cls, *_: Any, **__: Any) -> Self:
        self = super().__new__(cls)
        self._process = os.getpid()
        return self

    @property
    def forked(self) -> bool:
        """True in a process that was forked from the one that joined the group."""
        return os.getpid() != self._process

    def check_process(self) -> None:
        """Raise `TransportError` in a forked process."""
        if self.forked:
            raise TransportError(
                f"the transport is that of another process, {self._process}, from which this one was forked: "
                "join a group of its own"
            )

    @property
    def nic(self) -> bool:
        """True if the NICs of all ranks compress and restore tagged floats."""
        return self.nic_codec is not None

    @property
    def floats(self) -> bool:
        """True if ``tagged=True`` is possible."""
        return self.nic

    @abstractmethod
    def isend(self, peer: int, buffer: BytesLike, *, tagged: bool = False) -> Request:
        """Begin to send a message. The buffer must keep its contents until the request is complete.

        Messages (or floats) to one peer arrive in the order in which they were sent. Raises ``ValueError``
        for a peer that is not another rank of the group, or for floats whose bytes are not a multiple of 4.
        """

    @abstractmethod
    def irecv_into(self, peer: int, buffer: BytesLike, *, tagged: bool = False) -> Request:
        """Begin to receive into a writable buffer.

        A message may be shorter than the buffer; floats fill it.
        """

    @abstractmethod
    def wait_any(self, requests: Sequence[Request], timeout: float) -> list[Request]:
        """Wait until one of the requests is complete; return those, or [] after ``timeout`` seconds.

        A rank that serves others uses it, because it has no single message to wait for. It is no error if
        nothing arrives. The call ends early, with [], if `wake` has been called since the last call. Raises
        `PeerLost` if the group is broken, or if one of the requests receives from a rank that has left.
        """

    @abstractmethod
    def wake(self) -> None:
        """End another thread's `wait_any`, either the current call or the next one.

        Any thread may call this.
        """

    def check_threads(self) -> None:
        """Raise ``RuntimeError`` if only the thread that made this transport may use it."""
        return

    @abstractmethod
    def exchange(self, value: Any) -> list[Any]:
        """Return every rank's value, in rank order, at every rank. The values must be JSON values.

        Equal values may be one object. It completes only when every rank has called it. It uses the control
        connections, so it is not meant for data. Raises ``TypeError`` for a value that JSON cannot hold,
        before anything is sent.
        """

    def waits_for(self, peers: Collection[int]) -> None:
        """Tell the group that this rank has been waiting for ``peers``, or with () that it has stopped.

        A rank that serves others calls this some time before its own time limit, and `silent` uses the
        information. All other waits report themselves.
        """
        return

    def silent(self, peers: Collection[int]) -> list[int]:
        """Return the ranks that an error should name after ``peers`` have kept this rank waiting too long.

        The peers may wait for others in turn. The result is the ranks at the end of that chain, as far as
        known. The call takes at most a second. Raises `PeerLost` if the group is broken.
        """
        return sorted(peers)

    @abstractmethod
    def abort(self, reason: str) -> None:
        """Tell all ranks that can be reached that this one gives up, and close the transport.

        The other ranks raise `PeerLost` with the reason. Further calls on this rank raise `TransportError`.
        """

    @abstractmethod
    def close(self) -> None:
        """Free all resources; a second call does nothing.

        Ranks that still wait for this one get `PeerLost`.
        """

    @contextmanager
    def patience(self, timeout: float | None) -> Iterator[None]:
        """Let a wait in this context last ``timeout`` seconds without progress. None changes nothing.

        Raises ``ValueError`` if ``timeout`` is not a number of seconds above 0.
        """
        before = self.timeout
        self.timeout = before if timeout is None else check_timeout(timeout)
        try:
            yield
        finally:
            self.timeout = before

    def send(self, peer: int, buffer: BytesLike, *, tagged: bool = False) -> None:
        """Send a message and return when its buffer may be used again.

        The message may not have arrived by then.
        """
        self.isend(peer, buffer, tagged=tagged).wait()

    def recv_into(self, peer: int, buffer: BytesLike, *, tagged: bool = False) -> int:
        """Receive the next message from a peer and return its length in bytes."""
        return self.irecv_into(peer, buffer, tagged=tagged).wait()

    def sendrecv(
        self, dest: int, sendbuf: BytesLike, source: int, recvbuf: BytesLike, *, tagged: bool = False
    ) -> int:
        """Send to one rank while receiving from another; return the bytes received. Never deadlocks."""
        incoming = self.irecv_into(source, recvbuf, tagged=tagged)
        outgoing = self.isend(dest, sendbuf, tagged=tagged)
        received = incoming.wait()
        outgoing.wait()
        return received

    def barrier(self) -> None:
        """Wait until every rank has called this."""
        self.exchange(None)

    def wait_all(self, requests: Iterable[Request]) -> None:
        """Wait for each of the requests."""
        for request in requests:
            request.wait()

    def _check(self, peer: int, view: memoryview, tagged: bool) -> None:
        """Check arguments as `isend` and `irecv_into` promise."""
        if not 0 <= peer < self.size or peer == self.rank:
            raise ValueError(f"peer must be another rank of 0..{self.size - 1}, not {peer!r}")
        if tagged and not self.floats:
            raise ValueError("this transport has no connections for tagged floats")
        if tagged and view.nbytes % LANE_BYTES:
            raise ValueError(f"tagged floats must be a multiple of {LANE_BYTES} bytes, not {view.nbytes}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        else:
            self.abort(f"{type(error).__name__}: {error}")

    def __repr__(self) -> str:
        if not {"rank", "size"} <= vars(self).keys():
            return f"<{type(self).__name__}, not connected>"
        return f"<{type(self).__name__} rank {self.rank} of {self.size}{', NIC' if self.nic else ''}>"


def check_timeout(timeout: float) -> float:
    """Return the time-out. Raise ``ValueError`` if it is not a number of seconds above 0."""
    if not isinstance(timeout, int | float) or not 0 < timeout < math.inf:
        raise ValueError(f"timeout must be a number of seconds above 0, not {timeout!r}")
    return timeout


def bytes_of(buffer: BytesLike, *, writable: bool = False) -> memoryview:
    """View a buffer's bytes as one flat ``memoryview``, without a copy.

    Raises ``TypeError`` for an object without a buffer, ``ValueError`` for a buffer that is not C-contiguous,
    or is read-only where it must be written.
    """
    view = memoryview(buffer)  # type: ignore[arg-type]
    if not view.c_contiguous:
        raise ValueError("the buffer must be C-contiguous")
    if writable and view.readonly:
        raise ValueError("the buffer to receive into is read-only")
    # `memoryview.cast` rejects a view without elements.
    return view.cast("B") if view.nbytes else memoryview(bytearray())


def silent_of(peers: Collection[int], waits: Mapping[int, Collection[int]]) -> list[int]:
    """Return the ranks at the end of the chains of waits that begin at ``peers``."""
    ends, seen, todo = set(), set(), list(peers)
    while todo:
        rank = todo.pop()
        if rank not in seen:
            seen.add(rank)
            further = waits.get(rank)
            if further:
                todo += further
            else:
                ends.add(rank)
    return sorted(ends or peers)


def ranks_text(ranks: Collection[int]) -> str:
    """Format ranks as "rank 3" or "ranks 1, 2"."""
    return f"rank{'s' * (len(ranks) != 1)} {', '.join(map(str, sorted(ranks)))}"


def name_of(codec: Codec) -> str:
    """Return the codec's settings as text. Two codecs with equal texts make the same streams."""
    return codec.name
