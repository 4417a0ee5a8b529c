# SPDX-License-Identifier: BSD-2-Clause
"""A group of torch processes as a `Transport`. Torch is used only to find the ranks."""

from __future__ import annotations

import ipaddress
import os
import re
import socket
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from ..system.address import parse_address
from ..system.text import LONGEST, printable
from ..transport import TcpTransport, TransportError, TransportTimeout
from ..transport.base import check_timeout
from ..transport.tcp.formation import form
from ..transport.tcp.rendezvous import listen
from ..transport.tcp.secret import shared
from ..wire import DEFAULT_TOS

if TYPE_CHECKING:
    from ..codec import Codec

ADDRESS = "INCEPTIONN_ADDRESS"
"""Environment variable with this rank's own address, if its host has several."""
_PLACE = "rendezvous"
_STALE = (
    "torch's store holds the address of a rank 0 that has ended, since torchrun keeps it over a restart: set "
    "TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 for torchrun, with --standalone or --rdzv-backend c10d"
)
"""The error of a restart that would send all other ranks to the address of a rank that has ended."""

_made: WeakKeyDictionary[Any, int] = WeakKeyDictionary()
"""Number of transports that a group has made. All ranks make them in the same order."""

_jobs = 0
"""Number of transports that this process has made with torchrun's store."""


class TorchTransport(TcpTransport):
    """The ranks of a torch process group, over this package's own connections. All ranks make one.

    Every layer and collective of this package takes it. The group's store carries rank 0's address and random
    bytes. After that torch is not involved. The bytes are the group's secret, and whoever reads the store can
    join. With ``INCEPTIONN_SECRET`` or ``INCEPTIONN_SECRET_FILE``, the same at all ranks, the secret is the
    HMAC of the bytes under that key, and the store alone does not admit anyone (``docs/trust.md``).

    Parameters
    ----------
    group
        A process group with any backend. None means the default group.
    timeout
        Seconds without progress. None means the group's own time-out.
    nic, tos
        Those of `inceptionn.transport.connect`.
    host
        This rank's own address. The default is ``INCEPTIONN_ADDRESS``, and without that the address from
        which it reaches the store.

    Raises the errors of `connect`, also where ranks have different secrets, and ``ValueError`` at a rank that
    is not in the group.
    """

    def __init__(
        self,
        group: dist.ProcessGroup | None = None,
        *,
        timeout: float | None = None,
        nic: bool | None | Codec = None,
        tos: int = DEFAULT_TOS,
        host: str | None = None,
    ) -> None:
        members = group_of(group)
        number = _made[members] = _made.get(members, -1) + 1
        # Torch knows no store of a group that is not its own, such as torchft's.
        found = getattr(members, "store", None) or c10d._get_process_group_store(members)
        store = dist.PrefixStore(f"inceptionn/{number}", found)
        limit = timeout_of(members) if timeout is None else check_timeout(timeout)
        self._meet(store, members.rank(), members.size(), limit, nic, tos, host)

    def _meet(
        self, store: dist.Store, rank: int, size: int, timeout: float, nic: bool | None | Codec, tos: int,
        host: str | None,
    ) -> None:  # fmt: skip
        host = host or os.environ.get(ADDRESS)
        listener: socket.socket | None = None
        place, secret = "127.0.0.1:0", None
        if size > 1:
            listener, place, secret = _rendezvous(store, rank, size, timeout, host)
            if listener is not None and listener.getsockname()[0] == "0.0.0.0":
                host = None
        try:
            form(
                self, rank, size, place, timeout=timeout, nic=nic, tos=tos, host=host, job="", secret=secret,
                listener=listener,
            )  # fmt: skip
        except TransportError as error:
            if rank == 0 and (reasons := _reasons(store, size)):
                raise type(error)(f"{error}; {reasons}") from error
            raise


def of_torchrun(timeout: float, nic: bool | None | Codec) -> TorchTransport:
    """Group all processes that torchrun has started: the default process group, or by torchrun's store."""
    if dist.is_initialized():
        return TorchTransport(timeout=timeout, nic=nic)
    store, rank, size = next(dist.rendezvous("env://", timeout=timedelta(seconds=timeout)))
    global _jobs
    _jobs += 1
    transport = TorchTransport.__new__(TorchTransport)
    transport._meet(
        dist.PrefixStore(f"inceptionn/job/{_jobs}", store), rank, size, timeout, nic, DEFAULT_TOS, None
    )
    return transport


def group_of(group: dist.ProcessGroup | None) -> dist.ProcessGroup:
    """Return the group, or the default group for None. Raise ``ValueError`` at a rank that is not in it."""
    members = c10d._get_default_group() if group is None else group
    if not isinstance(members, dist.ProcessGroup):
        raise ValueError(f"this rank is not in the group: {group!r}")
    return members


def ranks_of(group: dist.ProcessGroup | None) -> int | None:
    """Return the number of ranks of a group; None at a rank outside it, and before there are groups."""
    if group is None:
        return dist.get_world_size() if dist.is_initialized() else None
    return group.size() if isinstance(group, dist.ProcessGroup) else None


def rank_of(group: dist.ProcessGroup | None) -> int | None:
    """Return this rank in a group; None outside it, and before there are groups."""
    return None if ranks_of(group) is None else group_of(group).rank()


def timeout_of(group: dist.ProcessGroup) -> float:
    """Return a group's time-out in seconds, or torch's default if its backends do not tell it."""
    if isinstance(found := getattr(group, "timeout", None), timedelta):
        return found.total_seconds()
    for device in ("cpu", "cuda"):
        try:
            options = group._get_backend(torch.device(device)).options
            limit: timedelta = options._timeout
        except (RuntimeError, AttributeError):
            continue
        return limit.total_seconds()
    return float(c10d.default_pg_timeout.total_seconds())


def _rendezvous(
    store: dist.Store, rank: int, size: int, timeout: float, host: str | None
) -> tuple[socket.socket | None, str, bytes]:
    """Return rank 0's listener, and at all ranks its address and the group's secret.

    If rank 0 cannot listen or read its own secret, every rank raises `TransportError` with the reason. So do
    the other ranks if the store holds something else.
    """
    limit = timedelta(seconds=timeout)
    store.set(f"host/{rank}", socket.gethostname())
    try:
        if rank == 0:
            if store.check([_PLACE]):
                raise TransportError(_STALE)
            random = os.urandom(32).hex()
            try:
                secret = shared(random.encode())
                here, name = _listening_address(store, size, limit, host)
                listener = listen((here, 0))
            except (TransportError, ValueError) as error:
                store.set(_PLACE, f"{error}\n")
                raise
            port = listener.getsockname()[1]
            place = f"[{name}]:{port}" if ":" in name else f"{name}:{port}"
            store.set(_PLACE, f"{place}\n{random}")
            return listener, place, secret
        store.wait([_PLACE], limit)
    except RuntimeError as error:  # the store's error has its own class only since torch 2.3
        raise TransportTimeout(f"the store of the process group: {error}") from error
    place, _, random = store.get(_PLACE).decode(errors="replace").partition("\n")
    place = printable(place)[:LONGEST]
    if not random:
        raise TransportError(f"rank 0: {place}")
    try:
        parse_address(place)
    except ValueError as error:
        raise TransportError(f"torch's store names no address of rank 0: {error}") from error
    if not re.fullmatch("[0-9a-f]{64}", random):
        raise TransportError("torch's store holds no random bytes of rank 0 beside its address")
    try:
        return None, place, shared(random.encode())
    except ValueError as error:
        store.set(f"wrong/{rank}", str(error))
        raise


def _reasons(store: dist.Store, size: int) -> str:
    """Say why other ranks did not come to the rendezvous, as far as they have written it to the store."""
    said = []
    with suppress(RuntimeError):
        for rank in range(1, size):
            if store.check([f"wrong/{rank}"]):
                text = printable(store.get(f"wrong/{rank}").decode(errors="replace"))
                said.append(f"rank {rank}: {text[:LONGEST]}")
    return "; ".join(said)


def _listening_address(store: dist.Store, size: int, limit: timedelta, host: str | None) -> tuple[str, str]:
    """Return the address at which rank 0 listens, and the name by which the others find it."""
    if host is not None:
        return host, host
    here = _towards(store)
    if not ipaddress.ip_address(here).is_loopback:
        return here, here
    # The store's host may have only a loopback address for its own name, as in Debian's /etc/hosts.
    keys = [f"host/{rank}" for rank in range(size)]
    store.wait(keys, limit)
    names = {store.get(key) for key in keys}
    return (here, here) if len(names) == 1 else ("0.0.0.0", socket.gethostname())


def _towards(store: Any) -> str:
    """Return the address from which this host reaches the store; loopback if the store has no host."""
    while (inner := getattr(store, "underlying_store", None)) is not None:
        store = inner
    host, port = getattr(store, "host", None), getattr(store, "port", None)
    if not host or not port:
        return "127.0.0.1"
    try:
        family, kind, protocol, _, where = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.connect(where)  # sends nothing
            return str(probe.getsockname()[0])
    except OSError as error:
        raise TransportError(f"no route to the store at {host}:{port}: {error.strerror or error}") from error
