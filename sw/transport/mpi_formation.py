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
from .tcp.secret import shared

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
    """Join the ranks of an mpi4py communicator over TCP. Arguments and errors are those of `connect`.

    MPI carries only rank 0's address and random bytes. These bytes are the group's secret. With
    ``INCEPTIONN_SECRET`` or ``INCEPTIONN_SECRET_FILE`` it is their HMAC under that key. The address is rank
    0's ``host`` if given. Otherwise it is the loopback address if all ranks are on one host, or else rank 0's
    host name, which each rank resolves.
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
    random = comm.bcast(os.urandom(32) if rank == 0 else None, root=0)
    return connect(
        rank, size, rendezvous, timeout=timeout, nic=nic, tos=tos, host=host, secret=shared(random),
        listener=listener,
    )  # fmt: skip
