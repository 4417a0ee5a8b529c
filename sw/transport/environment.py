# SPDX-License-Identifier: BSD-2-Clause
"""The transport of a program, chosen by its launcher: torchrun, mpirun, the virtual cluster, or none."""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING

from .base import DEFAULT_TIMEOUT, Transport
from .loopback import loopback
from .mpi_formation import connect_mpi
from .tcp import connect

if TYPE_CHECKING:
    from ..codec import Codec

_OURS = ("INCEPTIONN_RANK", "INCEPTIONN_SIZE", "INCEPTIONN_RENDEZVOUS")
_TORCH = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
_MPI = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK")
"""One of these is set by Open MPI, MPICH, Intel MPI, or another launcher with PMIx."""


def from_environment(*, timeout: float = DEFAULT_TIMEOUT, nic: bool | None | Codec = None) -> Transport:
    """Return this process's transport, chosen by its launcher; all processes of the job call it.

    It looks for three sets of environment variables, in this order:

    * ``INCEPTIONN_RANK``, ``INCEPTIONN_SIZE`` and ``INCEPTIONN_RENDEZVOUS``, set by the virtual cluster or by
      you: `connect` joins the group.
    * torchrun's: torch finds the other ranks.
    * mpirun's: mpi4py finds the other ranks.

    Without any of these the process is a group of one. ``INCEPTIONN_ADDRESS`` is this rank's own address, if
    its host has several. Arguments and errors are those of `connect`. Raises ``ModuleNotFoundError`` if torch
    or mpi4py is missing.
    """
    found = os.environ
    host = found.get("INCEPTIONN_ADDRESS")
    if all(name in found for name in _OURS):
        rank, size, rendezvous = (found[name] for name in _OURS)
        return connect(int(rank), int(size), rendezvous, timeout=timeout, nic=nic, host=host)
    if all(name in found for name in _TORCH):
        transport: Transport = import_module("inceptionn.torch.transport").of_torchrun(timeout, nic)
        return transport
    if any(name in found for name in _MPI):
        return connect_mpi(import_module("mpi4py.MPI").COMM_WORLD, timeout=timeout, nic=nic, host=host)
    return loopback(1, timeout=timeout)[0]
