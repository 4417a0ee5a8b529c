# SPDX-License-Identifier: BSD-2-Clause
"""Transports: one rank's view of a group of ranks, with one small interface (`Transport`).

`loopback` makes a group of threads, `connect` joins one over TCP, `MpiTransport` sends through an mpi4py
communicator, and `connect_mpi` uses one only to find the other ranks and joins them over TCP.
`from_environment` chooses by what started the program.
"""

from .base import (
    DEFAULT_TIMEOUT,
    PeerLost,
    Request,
    RunningClock,
    Transport,
    TransportError,
    TransportTimeout,
    ranks_text,
)
from .environment import from_environment
from .loopback import LoopbackTransport, loopback
from .mpi import MpiTransport, transport_of
from .mpi_formation import connect_mpi
from .tcp import TcpTransport, connect

__all__ = [
    "DEFAULT_TIMEOUT", "LoopbackTransport", "MpiTransport", "PeerLost", "Request", "RunningClock",
    "TcpTransport", "Transport", "TransportError", "TransportTimeout", "connect", "connect_mpi",
    "from_environment", "loopback", "ranks_text", "transport_of",
]  # fmt: skip
