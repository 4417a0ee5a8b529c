# SPDX-License-Identifier: BSD-2-Clause
"""A group that is an mpi4py communicator: messages through MPI, or TCP with MPI only to find each other.

MPI's own connections mix headers with the data and are never marked, so `MpiTransport` has no floats;
`connect_mpi` makes connections that have. mpi4py is not imported here: a communicator brings it along.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from inceptionn.transport.base import (
    DEFAULT_TIMEOUT,
    BytesLike,
    PeerLost,
    Request,
    Transport,
    TransportError,
    TransportTimeout,
    bytes_of,
)
from inceptionn.transport.formation import connect
from inceptionn.transport.rendezvous import listen
from inceptionn.transport.tcp import TcpTransport
from inceptionn.wire import DEFAULT_TOS

if TYPE_CHECKING:
    from inceptionn.codec import Codec

_DATA, _BROKEN = 1, 2
_SPINS = 200
"""Tests in a row before a waiting rank begins to sleep, and to look for a rank that has given up."""
_SLEEP = 50e-6
_LONGEST_SLEEP = 1e-3
_SPINS_UNHEARD = 8
"""Rounds of `MpiTransport.wait_any` before it looks for a rank that has given up."""


def mpi_of(comm: Any) -> Any:
    """The module ``mpi4py.MPI`` that a communicator comes from; ``TypeError`` if it is no communicator."""
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
            self._owner._until(self._poll, timeout, f"a message from or to rank {self._peer}")
        received: int = self._status.Get_count(self._owner._mpi.BYTE) if self._length else 0
        return received


class MpiTransport(Transport):
    """Messages through MPI, on a duplicate of an mpi4py intracommunicator (made here: all ranks must call).

    ``timeout``: seconds that any one message or exchange may take (MPI does not show partial progress). MPI
    implementations usually end all ranks of a job when one dies; where not, the time-out ends the wait.
    """

    def __init__(self, comm: Any, timeout: float = DEFAULT_TIMEOUT) -> None:
        self._mpi = mpi_of(comm)
        self.rank, self.size, self.timeout = comm.Get_rank(), comm.Get_size(), timeout
        self._broken: TransportError | None = None
        self._farewells: list[Any] = []
        self._woken = threading.Event()
        duplicate, request = comm.Idup()
        self._comm: Any = None  # not to be used before it is complete
        self._until(request.Test, timeout, "the duplicate of the communicator")
        self._comm = duplicate

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
            # MPI cannot be woken, so it is asked; less and less often while nothing comes.
            self._woken.wait(min(_SLEEP * (1 + spins // 8), _LONGEST_SLEEP))

    def wake(self) -> None:
        self._woken.set()

    def exchange(self, value: Any) -> list[Any]:
        self._alive()
        mine = np.frombuffer(json.dumps(value).encode(), np.uint8)
        lengths = np.empty(self.size, np.int32)
        request = self._comm.Iallgather(np.array([mine.size], np.int32), lengths)
        self._until(request.Test, None, "an exchange with all ranks")
        everything = np.empty(int(lengths.sum()), np.uint8)
        request = self._comm.Iallgatherv(mine, [everything, lengths])
        self._until(request.Test, None, "an exchange with all ranks")
        parts = np.split(everything, np.cumsum(lengths)[:-1])
        return [json.loads(part.tobytes()) for part in parts]

    def _until(self, finished: Any, timeout: float | None, what: str) -> None:
        """Polls until ``finished()``; MPI makes progress only in its own calls."""
        limit = self.timeout if timeout is None else timeout
        deadline = time.monotonic() + limit
        spins = 0
        while not finished():
            spins += 1
            if spins < _SPINS:
                os.sched_yield()
                continue
            if self._broken is None and self._comm is not None:
                self._hear()
            if time.monotonic() > deadline:
                late = TransportTimeout(f"rank {self.rank} waited for {what}: not complete in {limit:g} s")
                raise late if self._comm is None else self._fail(late)
            time.sleep(_SLEEP)

    def _hear(self) -> None:
        """Raises if a rank has given up."""
        status = self._mpi.Status()
        if self._comm.Iprobe(source=self._mpi.ANY_SOURCE, tag=_BROKEN, status=status):
            text = bytearray(status.Get_count(self._mpi.BYTE))
            self._comm.Recv([text, self._mpi.BYTE], source=status.Get_source(), tag=_BROKEN)
            self._broken = PeerLost(text.decode())
            raise self._broken

    def _alive(self) -> None:
        if self._broken is not None:
            raise type(self._broken)(str(self._broken))

    def _fail(self, error: TransportError) -> TransportError:
        if self._broken is None:
            self._tell(str(error))
            self._broken = error
        return error

    def _tell(self, reason: str) -> None:
        text = reason.encode()
        for peer in range(self.size):
            if peer != self.rank:
                self._farewells.append(
                    (text, self._comm.Isend([text, self._mpi.BYTE], dest=peer, tag=_BROKEN))
                )

    def abort(self, reason: str) -> None:
        if self._broken is None:
            self._tell(f"rank {self.rank} gave up: {reason}")
            self._broken = TransportError(f"the transport was given up: {reason}")

    def close(self) -> None:
        if self._broken is None:
            self._broken = TransportError("the transport is closed")
            if not self._mpi.Is_finalized():
                self._comm.Free()


def connect_mpi(
    comm: Any,
    *,
    timeout: float = DEFAULT_TIMEOUT,
    nic: bool | None | Codec = None,
    tos: int = DEFAULT_TOS,
    host: str | None = None,
) -> TcpTransport:
    """Joins the ranks of an mpi4py communicator over TCP; arguments and errors are `connect`'s.

    MPI only carries rank 0's address: ``host`` there, else the loopback address if all ranks are on one host,
    else that of rank 0's host name (as the others resolve it).
    """
    rank, size = comm.Get_rank(), comm.Get_size()
    names = comm.allgather(socket.gethostname())
    listener = None
    answer: tuple[str, int] | str = ""
    if rank == 0:
        here = host or ("127.0.0.1" if len(set(names)) == 1 else socket.gethostname())
        try:
            listener = listen((here, 0), size)
            answer = (here, listener.getsockname()[1])
        except TransportError as error:
            answer = str(error)
    answer = comm.bcast(answer, root=0)
    if isinstance(answer, str):
        raise TransportError(answer)
    name, port = answer
    rendezvous = f"[{name}]:{port}" if ":" in name else f"{name}:{port}"
    return connect(rank, size, rendezvous, timeout=timeout, nic=nic, tos=tos, host=host, listener=listener)
