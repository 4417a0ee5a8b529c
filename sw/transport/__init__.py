# SPDX-License-Identifier: BSD-2-Clause
"""Transports: one rank's view of a group of ranks, behind one small interface (`Transport`).

`loopback` makes a group of threads, `connect` joins one over TCP, `MpiTransport` sends through an mpi4py
communicator, and `connect_mpi` uses one only to find the other ranks and joins them over TCP.
"""

from inceptionn.transport.base import (
    DEFAULT_TIMEOUT,
    PeerLost,
    Request,
    Transport,
    TransportError,
    TransportTimeout,
)
from inceptionn.transport.formation import connect
from inceptionn.transport.loopback import LoopbackTransport, loopback
from inceptionn.transport.mpi import MpiTransport, connect_mpi
from inceptionn.transport.tcp import TcpTransport

__all__ = [
    "DEFAULT_TIMEOUT",
    "LoopbackTransport",
    "MpiTransport",
    "PeerLost",
    "Request",
    "TcpTransport",
    "Transport",
    "TransportError",
    "TransportTimeout",
    "connect",
    "connect_mpi",
    "loopback",
]
