# SPDX-License-Identifier: BSD-2-Clause
"""Collectives with a root: reduce and broadcast."""

from operator import index
from typing import Any, Unpack

from ..system.integers import is_integer
from ..system.text import brief
from ..transport import Transport
from .algorithms.parts import Parts
from .algorithms.ring import reduce_scatter_steps, ring
from .algorithms.rooted import chain, gather_to
from .call import Call, Collective, run
from .requests import Plan, blocking, nonblocking, plan
from .settings import Keywords, Op, Settings
from .values.buffers import IN_PLACE, Buffers, RootBuffers

_ONLY_RING = ("ring",)


@blocking
def reduce_comp(
    comm: Any,
    sendbuf: Any,
    recvbuf: Any,
    op: Op = Op.SUM,
    root: int = 0,
    *,
    timeout: float | None = None,
    **settings: Unpack[Keywords],
) -> Plan:
    """Sum the send buffers of all ranks into the receive buffer of ``root``.

    Other receive buffers are ignored. It is a ring's reduce-scatter, whose blocks then go to the root, so the
    error is at most ``size`` times the bound. The other arguments, types and errors are those of
    `allreduce_comp`. Only the root may use `IN_PLACE`. The other ranks need memory for an array as large as
    ``sendbuf``.
    """
    return plan(comm, timeout, _reduce, sendbuf, recvbuf, root, Settings(op, **settings))


ireduce_comp = nonblocking(reduce_comp)


@blocking
def bcast_comp(
    comm: Any, buffer: Any, root: int = 0, *, timeout: float | None = None, **settings: Unpack[Keywords]
) -> Plan:
    """Send the values in the buffer of ``root`` to all others. Results are bit-identical at all ranks.

    The root's buffer is replaced by the values that the others receive. These are compressed once and
    forwarded along a chain of ranks. The other arguments, types and errors are those of `allreduce_comp`.
    """
    return plan(comm, timeout, _broadcast, buffer, root, Settings(**settings))


ibcast_comp = nonblocking(bcast_comp)


def check_root(root: Any, size: int) -> int:
    """Return ``root`` as a rank of ``size``. Raises ``TypeError`` or ``ValueError`` for anything else."""
    if not is_integer(root):
        raise TypeError(f"root must be a rank, 0..{size - 1}, not {brief(root)}")
    if not 0 <= root < size:
        raise ValueError(f"root must be a rank, 0..{size - 1}, not {brief(int(root))}")
    return index(root)


def _reduce(t: Transport, sendbuf: Any, recvbuf: Any, root: int, settings: Settings) -> None:
    def check() -> Buffers:
        check_root(root, t.size)
        return RootBuffers(sendbuf, recvbuf, settings.dtype, t.rank == root)

    def move(call: Call, _: Buffers) -> None:
        lanes, form = call.lanes, call.form
        parts = Parts(lanes.size, t.size, settings.sub_block)
        ring(form, range(t.size), call.source, lanes, parts, reduce_scatter_steps(t.size))
        gather_to(form, root, lanes, parts)
        if t.rank == root:
            call.settle_sum(lanes)
            call.unscale(lanes)

    kind = Collective("reduce", algorithms=_ONLY_RING, terms={"root": root_term(root)})
    run(t, kind, settings, check, move)


def _broadcast(t: Transport, buffer: Any, root: int, settings: Settings) -> None:
    def check() -> Buffers:
        check_root(root, t.size)
        return Buffers(IN_PLACE, buffer, settings.dtype)

    def move(call: Call, _: Buffers) -> None:
        members = [(root + place) % t.size for place in range(t.size)]
        chain(call.form, members, call.lanes, Parts(call.lanes.size, 1, settings.sub_block))
        call.unscale(call.lanes, root)

    kind = Collective("broadcast", False, _ONLY_RING, t.rank == root, {"root": root_term(root)})
    run(t, kind, settings, check, move)


def root_term(root: Any) -> int | None:
    """Return a root as a JSON value; None for one that `check_root` refuses."""
    return index(root) if is_integer(root) else None
