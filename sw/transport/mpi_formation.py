# SPDX-License-Identifier: BSD-2-Clause
"""A group over TCP whose ranks find each other by MPI."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING, Any

from ..wire import DEFAULT_TOS
from .base import DEFAULT_TIMEOUT, TransportError
from .tcp import TcpTransport, connect
from .tcp.rendezvous import listen

if TYPE_CHECKING:
    from ..codec import Codec


def connect_mpi(
    comm: Any,
    *,
    timeout: float = DEFAULT_TIMEOUT,
    nic: bool | None | Codec = None,
    tos: int = DEFAULT_TOS,
    host: str | None = None,
) -> TcpTransport:
    """Joins the ranks of an mpi4py communicator over TCP; arguments and errors are `connect`'s.

    MPI only carries rank 0's address and a random secret, so that nobody else can join. The address is
    ``host`` at rank 0, else the loopback address if all ranks are on one host, else that of rank 0's host
    name (as the others resolve it).
    """
    rank, size = comm.Get_rank(), comm.Get_size()
    names = comm.allgather(socket.gethostname())
    listener = None
    answer: tuple[str, int] | str = ""
    if rank == 0:
        here = host or ("127.0.0.1" if len(set(names)) == 1 else socket.gethostname())
        try:
            listener = listen((here, 0))
            answer = (here, listener.getsockname()[1])
        except TransportError as error:
            answer = str(error)
    answer = comm.bcast(answer, root=0)
    if isinstance(answer, str):
        raise TransportError(answer)
    name, port = answer
    rendezvous = f"[{name}]:{port}" if ":" in name else f"{name}:{port}"
    secret = comm.bcast(os.urandom(32) if rank == 0 else None, root=0)
    return connect(
        rank, size, rendezvous, timeout=timeout, nic=nic, tos=tos, host=host, secret=secret, listener=listener
    )
