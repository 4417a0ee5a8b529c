# SPDX-License-Identifier: BSD-2-Clause
"""A group on an mpi4py communicator: MPI carries the messages.

MPI mixes headers with the data on its connections and does not mark them, so `MpiTransport` cannot carry
floats. `connect_mpi` makes connections that can. mpi4py is not imported here; the caller's communicator
brings it.
"""

from __future__ import annotations

import atexit
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from ..system.text import brief, printable
from .base import (
    DEFAULT_TIMEOUT,
    BytesLike,
    PeerLost,
    Request,
    RunningClock,
    Transport,
    TransportError,
    TransportTimeout,
    bytes_of,
    check_timeout,
    ranks_text,
    silent_of,
)
from .tcp.line import ranks as are_ranks
from .tcp.line import shortened

_DATA, _NEWS, *_VALUES = range(1, 5)
"""Tags: messages; notices between ranks (`MpiTransport._hear`); the values of an exchange,
two tags in turn, because a rank may be one exchange ahead of another."""
_SPINS = 200
"""Tests that a waiting rank makes before it begins to sleep and to read the others' notices."""
_SLEEP = 50e-6
_LONGEST_SLEEP = 1e-3
_SPINS_UNHEARD = 8
"""Rounds of `MpiTransport.wait_any` before it reads the others' notices."""


def mpi_of(comm: Any) -> Any:
    """Return the module ``mpi4py.MPI`` that a communicator comes from.

    Raises ``TypeError`` if it is not a communicator.
    """
    for ancestor in type(comm).__mro__:
        module = sys.modules.get(ancestor.__module__)
        if ancestor.__name__ == "Comm" and hasattr(module, "COMM_WORLD"):
            return module
    raise TypeError(f"a transport or an mpi4py communicator is needed, not {comm!r}")


class _MpiRequest(Request):
    def __init__(self, owner: MpiTransport, request: Any, length: int, peer: int) -> None:
        self._owner, self._request, self._length, self._peer = owner, request, length, peer
        self._status = owner._mpi.Status()
        self._done = False

    def test(self) -> bool:
        if not self._done:
            self._owner._alive()
            self._poll()
        return self._done

    def _poll(self) -> bool:
        try:
            self._done = self._request.Test(self._status)
        except self._owner._mpi.Exception as error:
            if error.Get_error_class() == self._owner._mpi.ERR_TRUNCATE:
                text = (
                    f"rank {self._peer} sent a message that is longer than the buffer of {self._length} bytes"
                )
            else:
                text = f"MPI: {error.Get_error_string()}"
            raise self._owner._fail(TransportError(text)) from error
        return self._done

    def wait(self, timeout: float | None = None) -> int:
        if not self._done:
            self._owner._alive()
            self._owner._until(self._poll, timeout, lambda: {self._peer})
        received: int = self._status.Get_count(self._owner._mpi.BYTE) if self._length else 0
        return received


class MpiTransport(Transport):
    """Messages through MPI, on a duplicate of an mpi4py intracommunicator.

    The constructor makes the duplicate and `close` frees it, so all ranks must call both. ``timeout`` is the
    seconds that any one message or exchange may take, since MPI does not show partial progress. A rank that
    ends early or with an exception tells the others when Python exits. A killed process cannot tell them;
    then mpirun ends the job.
    """

    def __init__(self, comm: Any, timeout: float = DEFAULT_TIMEOUT) -> None:
        self._mpi = mpi_of(comm)
        self.rank, self.size, self.timeout = comm.Get_rank(), comm.Get_size(), check_timeout(timeout)
        self._broken: TransportError | None = None
        self._told: list[tuple[bytes, Any]] = []
        self._left: set[int] = set()
        """Ranks that have ended in good order."""
        self._waits: dict[int, list[int]] = {}
        """The ranks that a rank has reported to be waiting for."""
        self._round = 0
        self._woken = threading.Event()
        self._comm, request = comm.Idup()
        deadline = time.monotonic() + timeout
        while not request.Test():
            if time.monotonic() > deadline:
                raise TransportTimeout(
                    f"rank {self.rank}: not all ranks made a transport within {timeout:g} s"
                )
            time.sleep(_SLEEP)
        atexit.register(self._exit)

    def isend(self, peer: int, buffer: BytesLike, *, tagged: bool = False) -> Request:
        view = bytes_of(buffer)
        self._check(peer, view, tagged)
        self._alive()
        self.bytes_sent += view.nbytes
        request = self._comm.Isend([view, self._mpi.BYTE], dest=peer, tag=_DATA)
        return _MpiRequest(self, request, 0, peer)

    def irecv_into(self, peer: int, buffer: BytesLike, *, tagged: bool = False) -> Request:
        view = bytes_of(buffer, writable=True)
        self._check(peer, view, tagged)
        self._alive()
        request = self._comm.Irecv([view, self._mpi.BYTE], source=peer, tag=_DATA)
        return _MpiRequest(self, request, max(1, view.nbytes), peer)

    def wait_any(self, requests: Sequence[Request], timeout: float) -> list[Request]:
        self._alive()
        deadline, spins = time.monotonic() + timeout, 0
        while True:
            done: list[Request] = [
                r for r in requests if isinstance(r, _MpiRequest) and (r._done or r._poll())
            ]
            if done or self._woken.is_set() or time.monotonic() >= deadline:
                self._woken.clear()
                return done
            spins += 1
            if spins % _SPINS_UNHEARD == 0:
                self._hear()
                gone = self._left & {r._peer for r in requests if isinstance(r, _MpiRequest)}
                if gone and not any(r.test() for r in requests):
                    raise self._ended(gone)
            # MPI cannot be woken, so it is polled, less and less often while nothing arrives.
            self._woken.wait(min(_SLEEP * (1 + spins // 8), _LONGEST_SLEEP))

    def wake(self) -> None:
        self._woken.set()

    def check_threads(self) -> None:
        if self._mpi.Query_thread() < self._mpi.THREAD_MULTIPLE:
            raise RuntimeError(
                "non-blocking collectives need MPI with THREAD_MULTIPLE; see mpi4py.rc.thread_level"
            )

    def exchange(self, value: Any) -> list[Any]:
        self._alive()
        mine = json.dumps(value).encode()
        tag = _VALUES[self._round % 2]
        self._round += 1
        under_way = self._to_all(mine, tag)
        values: dict[int, bytes | bytearray] = {self.rank: mine}
        status = self._mpi.Status()

        def complete() -> bool:
            while message := self._comm.Improbe(self._mpi.ANY_SOURCE, tag, status):
                into = values[status.Get_source()] = bytearray(status.Get_count(self._mpi.BYTE))
                under_way.append(message.Irecv([into, self._mpi.BYTE]))
            return len(values) == self.size and bool(self._mpi.Request.Testall(under_way))

        # Every rank sends to every other, so that each knows whose value is missing.
        self._until(complete, None, lambda: set(range(self.size)) - values.keys())
        return [self._decoded(rank, values[rank]) for rank in range(self.size)]

    def _decoded(self, rank: int, said: bytes | bytearray) -> Any:
        """Return the JSON value that a rank sent. Raise `TransportError`, which names it, for other bytes."""
        try:
            return json.loads(said)
        except (ValueError, RecursionError) as error:
            raise self._fail(TransportError(f"rank {rank} sent what is no JSON: {error}")) from error

    def _until(self, finished: Callable[[], bool], timeout: float | None, on: Callable[[], set[int]]) -> None:
        """Poll until ``finished()``, for which the ranks ``on()`` are needed.

        MPI makes progress only in its own calls.
        """
        limit = self.timeout if timeout is None else timeout
        clock = RunningClock(limit)
        start, spins, told = clock.now(), 0, False
        while not finished():
            spins += 1
            if spins < _SPINS:
                os.sched_yield()
                continue
            self._alive()  # another thread may have given up
            self._hear()
            if gone := self._left & on():
                if finished():
                    break
                raise self._ended(gone)
            waited = clock.now() - start
            if waited > limit:
                raise self._fail(self._late(on(), limit))
            if waited > limit / 2 and not told:
                told = True
                self._tell({"waits": sorted(on())})
            time.sleep(_SLEEP)
        if told:
            self._tell({"waits": []})

    def _late(self, peers: set[int], limit: float) -> TransportError:
        silent = ranks_text(silent_of(peers, {**self._waits, self.rank: peers}))
        return TransportTimeout(f"rank {self.rank} waited: nothing from {silent} for {limit:g} s")

    def _hear(self) -> None:
        """Read the others' notices; raise if a rank has given up."""
        status = self._mpi.Status()
        while self._comm.Iprobe(source=self._mpi.ANY_SOURCE, tag=_NEWS, status=status):
            source, text = status.Get_source(), bytearray(status.Get_count(self._mpi.BYTE))
            self._comm.Recv([text, self._mpi.BYTE], source=source, tag=_NEWS)
            match said := self._decoded(source, text):
                case {"broken": str(reason)}:
                    self._broken = PeerLost(printable(shortened(reason)))
                    raise self._broken
                case {"waits": list(peers)} if are_ranks(peers) and all(peer < self.size for peer in peers):
                    self._waits[source] = peers
                case {"left": _}:
                    self._left.add(source)
                case _:
                    raise self._fail(TransportError(f"rank {source} sent no notice: {brief(said)}"))

    def _alive(self) -> None:
        self.check_process()
        if self._broken is not None:
            raise type(self._broken)(str(self._broken))

    def _ended(self, gone: set[int]) -> TransportError:
        return self._fail(PeerLost(f"rank {min(gone)} has ended"))

    def _fail(self, error: TransportError) -> TransportError:
        if self._broken is None:
            self._tell({"broken": str(error)})
            self._broken = error
        return error

    def _to_all(self, data: bytes, tag: int) -> list[Any]:
        """Begin to send ``data`` to all other ranks. ``data`` must live as long as the requests."""
        return [
            self._comm.Isend([data, self._mpi.BYTE], dest=peer, tag=tag)
            for peer in range(self.size)
            if peer != self.rank
        ]

    def _tell(self, said: dict[str, Any]) -> None:
        text = json.dumps(said).encode()
        self._told += [(text, request) for request in self._to_all(text, _NEWS)]

    def _exit(self) -> None:
        """Tell the others, when Python exits, that this rank has ended, and why."""
        if self._broken is not None or self.forked or self._mpi.Is_finalized():
            return
        error = getattr(sys, "last_value", None)  # the exception that ends the program, if there is one
        if error is None:
            self._tell({"left": self.rank})
        elif isinstance(error, TransportError):
            self._fail(error)
        else:
            self.abort(f"{type(error).__name__}: {error}")

    def abort(self, reason: str) -> None:
        if self._broken is None and not self.forked:
            self._tell({"broken": f"rank {self.rank} gave up: {reason}"})
            self._broken = TransportError(f"the transport was given up: {reason}")

    def close(self) -> None:
        if self._broken is None:
            self._broken = TransportError("the transport is closed")
            atexit.unregister(self._exit)
            if not self.forked and not self._mpi.Is_finalized():
                self._comm.Free()


_keyval: int | None = None


def transport_of(comm: Any, timeout: float | None = None) -> Transport:
    """Return the transport to use for a transport or an mpi4py communicator.

    The first call for a communicator makes an `MpiTransport`; all its ranks must call within ``timeout``
    seconds. The communicator keeps the transport as an MPI attribute, so freeing the communicator closes it.
    Raises ``TypeError`` for anything else.
    """
    global _keyval
    if isinstance(comm, Transport):
        return comm
    mpi = mpi_of(comm)
    if _keyval is None:
        _keyval = mpi.Comm.Create_keyval(delete_fn=lambda comm, keyval, transport: transport.close())
    transport: Transport | None = comm.Get_attr(_keyval)
    if transport is None:
        transport = MpiTransport(comm, DEFAULT_TIMEOUT if timeout is None else timeout)
        transport.timeout = DEFAULT_TIMEOUT
        comm.Set_attr(_keyval, transport)
    return transport
