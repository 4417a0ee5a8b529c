# SPDX-License-Identifier: BSD-2-Clause
"""Hosts for experiments on one machine: Linux network namespaces, joined by a rate-limited switch.

All of it needs root. `Namespaces` makes the hosts, runs commands in them and removes them, after an error
too. `Network` joins them by a bridge whose ports have a rate. `mpirun` starts an MPI job with one rank in
each.
"""

from .iproute import KernelLacks, NetworkError, NetworkUnavailable, require
from .mpi import mpi_popen, mpirun
from .namespaces import Host, Namespaces
from .network import DEFAULT_QUEUE, Network
from .units import bits_per_second, fraction, rate_text, seconds

__all__ = [
    "DEFAULT_QUEUE", "Host", "KernelLacks", "Namespaces", "Network", "NetworkError", "NetworkUnavailable",
    "bits_per_second", "fraction", "mpi_popen", "mpirun", "rate_text", "require", "seconds",
]  # fmt: skip
