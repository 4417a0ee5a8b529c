# SPDX-License-Identifier: BSD-2-Clause
"""A communicator that compresses collectives of floats, as a replacement for mpi4py's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..transport import Transport
from ..transport.mpi import mpi_of, transport_of
from .allreduce import MEAN, SUM, allreduce_comp, iallreduce_comp
from .blockwise import allgather_comp, iallgather_comp, ireduce_scatter_comp, reduce_scatter_comp
from .mpi_arguments import (
    FLOATS,
    MAKERS,
    MOVEMENTS,
    REDUCTIONS,
    SaidOnce,
    is_float_array,
    is_whole_float_array,
)
from .requests import in_order
from .rooted import bcast_comp, ibcast_comp, ireduce_comp, reduce_comp
from .settings import RING_ALGORITHMS, Op
from .values.buffers import is_in_place

_TREE_SETTINGS = ("legs", "upper")
_ALGORITHM_SETTINGS = ("algorithm", "group_size")


class CompressedCommunicator:
    """Wraps an mpi4py communicator or a `Transport`.

    It compresses whole arrays of floating-point values in ``Allreduce``, ``Reduce``,
    ``Reduce_scatter_block``, ``Reduce_scatter`` with its counts, ``Allgather`` and ``Bcast``. It also does so
    in their non-blocking variants (``Iallreduce`` ...), which return a `CollectiveRequest`, and in
    ``allreduce``, ``reduce``, ``allgather`` and ``bcast`` if all ranks give such arrays. Reductions are those
    with mpi4py's SUM, or this package's `SUM` and `MEAN`.

    These methods call the functions of this package with ``settings``, keyword arguments of `allreduce_comp`.
    An algorithm that only an all-reduce has is replaced by a ring elsewhere. After ``Bcast`` and
    ``Allgather`` the sender's values are replaced by those that the others receive.

    All other types, operations and methods go to the communicator itself. If compression may have been
    intended (a reduction or a collective of floats), rank 0 issues a ``UserWarning``, once for each method,
    type and operation. With ``path="off"`` it does not.

    ``transport`` carries the data instead of the communicator's own MPI. `connect_mpi` makes one.

    Methods that make a communicator (``Split``, ``Dup``, ``Create_group`` and so on) return a compressed one
    with the same settings, whose data go through its own MPI. Methods that return a request or an
    intercommunicator do not. A rank outside the new communicator gets ``COMM_NULL``.
    """

    def __init__(self, comm: Any, *, transport: Transport | None = None, **settings: Any) -> None:
        self.comm = comm
        self.transport = transport_of(comm, settings.get("timeout")) if transport is None else transport
        self.settings = settings
        self._said = SaidOnce(silent=self.Get_rank() != 0 or settings.get("path") == "off")
        if self.transport.size != self.Get_size():
            raise ValueError(f"the transport has {self.transport.size} ranks, not {self.Get_size()}")

    def Get_rank(self) -> int:
        """This process's rank."""
        return int(self.comm.rank)

    def Get_size(self) -> int:
        """The number of ranks."""
        return int(self.comm.size)

    @property
    def rank(self) -> int:
        """This process's rank."""
        return self.Get_rank()

    @property
    def size(self) -> int:
        """The number of ranks."""
        return self.Get_size()

    def Allreduce(self, sendbuf: Any, recvbuf: Any, op: Any = SUM) -> None:
        """`allreduce_comp` with mpi4py's arguments."""
        self._run("Allreduce", allreduce_comp, self.settings, (sendbuf, recvbuf), op)

    def Iallreduce(self, sendbuf: Any, recvbuf: Any, op: Any = SUM) -> Any:
        """`iallreduce_comp` with mpi4py's arguments."""
        return self._run("Iallreduce", iallreduce_comp, self.settings, (sendbuf, recvbuf), op)

    def Reduce(self, sendbuf: Any, recvbuf: Any, op: Any = SUM, root: int = 0) -> None:
        """`reduce_comp` with mpi4py's arguments."""
        buffers = (sendbuf, recvbuf if self.rank == root else None)
        self._run("Reduce", reduce_comp, self._rooted, buffers, op, root=root)

    def Ireduce(self, sendbuf: Any, recvbuf: Any, op: Any = SUM, root: int = 0) -> Any:
        """`ireduce_comp` with mpi4py's arguments."""
        buffers = (sendbuf, recvbuf if self.rank == root else None)
        return self._run("Ireduce", ireduce_comp, self._rooted, buffers, op, root=root)

    def Reduce_scatter_block(self, sendbuf: Any, recvbuf: Any, op: Any = SUM) -> None:
        """`reduce_scatter_comp` with mpi4py's arguments."""
        self._run("Reduce_scatter_block", reduce_scatter_comp, self._blockwise, (sendbuf, recvbuf), op)

    def Ireduce_scatter_block(self, sendbuf: Any, recvbuf: Any, op: Any = SUM) -> Any:
        """`ireduce_scatter_comp` with mpi4py's arguments."""
        buffers = (sendbuf, recvbuf)
        return self._run("Ireduce_scatter_block", ireduce_scatter_comp, self._blockwise, buffers, op)

    def Reduce_scatter(self, sendbuf: Any, recvbuf: Any, recvcounts: Any = None, op: Any = SUM) -> None:
        """`reduce_scatter_comp` with mpi4py's arguments. Without counts, calls MPI's own method."""
        ours = self._counted(reduce_scatter_comp, recvcounts)
        self._run("Reduce_scatter", ours, self._blockwise, (sendbuf, recvbuf), op, recvcounts=recvcounts)

    def Ireduce_scatter(self, sendbuf: Any, recvbuf: Any, recvcounts: Any = None, op: Any = SUM) -> Any:
        """`ireduce_scatter_comp` with mpi4py's arguments. Without counts, calls MPI's own method."""
        ours = self._counted(ireduce_scatter_comp, recvcounts)
        buffers = (sendbuf, recvbuf)
        return self._run("Ireduce_scatter", ours, self._blockwise, buffers, op, recvcounts=recvcounts)

    def Allgather(self, sendbuf: Any, recvbuf: Any) -> None:
        """`allgather_comp` with mpi4py's arguments."""
        self._run("Allgather", allgather_comp, self._blockwise, (sendbuf, recvbuf))

    def Iallgather(self, sendbuf: Any, recvbuf: Any) -> Any:
        """`iallgather_comp` with mpi4py's arguments."""
        return self._run("Iallgather", iallgather_comp, self._blockwise, (sendbuf, recvbuf))

    def Bcast(self, buf: Any, root: int = 0) -> None:
        """`bcast_comp` with mpi4py's arguments."""
        self._run("Bcast", bcast_comp, self._rooted, (buf,), root=root)

    def Ibcast(self, buf: Any, root: int = 0) -> Any:
        """`ibcast_comp` with mpi4py's arguments."""
        return self._run("Ibcast", ibcast_comp, self._rooted, (buf,), root=root)

    def allreduce(self, sendobj: Any, op: Any = SUM) -> Any:
        """The sum of all ranks' arrays, as a new array. Other objects go to MPI's own method."""
        if self._ours(op) is None or not self._all_arrays(sendobj, alike=True):
            return self._by_mpi("allreduce", (sendobj,), op)
        result = np.empty_like(sendobj)
        self.Allreduce(sendobj, result, op)
        return result

    def reduce(self, sendobj: Any, op: Any = SUM, root: int = 0) -> Any:
        """The sum of all ranks' arrays, as a new array at the root and None elsewhere.

        Other objects go to MPI's own method.
        """
        if self._ours(op) is None or not self._all_arrays(sendobj, alike=True):
            return self._by_mpi("reduce", (sendobj,), op, root=root)
        result = np.empty_like(sendobj) if self.rank == root else None
        self.Reduce(sendobj, result, op, root)
        return result

    def allgather(self, sendobj: Any) -> list[Any]:
        """All ranks' arrays, of any shapes, as new ones. Other objects go to MPI's own method."""
        shapes = self._all_arrays(sendobj)
        if not shapes:
            gathered: list[Any] = self._by_mpi("allgather", (sendobj,))
            return gathered
        counts = [int(np.prod(shape)) for shape in shapes]
        whole = np.empty(sum(counts), sendobj.dtype)
        allgather_comp(self.transport, sendobj, whole, counts=counts, **self._blockwise)
        parts = np.split(whole, np.cumsum(counts)[:-1])
        return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]

    def bcast(self, obj: Any, root: int = 0) -> Any:
        """The root's array, as a new one at every rank. Other objects go to MPI's own method."""
        described = self._descriptions(obj if self.rank == root else None)[root]
        if described is None:
            return self._by_mpi("bcast", (obj,), root=root)
        kind, shape = described
        result = np.array(obj) if self.rank == root else np.empty(shape, kind)
        bcast_comp(self.transport, result, root, **self._rooted)
        return result

    @property
    def _rooted(self) -> dict[str, Any]:
        """The settings of collectives with a root."""
        left_out = (*_TREE_SETTINGS, *_ALGORITHM_SETTINGS)
        return {name: value for name, value in self.settings.items() if name not in left_out}

    @property
    def _blockwise(self) -> dict[str, Any]:
        """The settings of a reduce-scatter or all-gather."""
        if self.settings.get("algorithm", "ring") not in RING_ALGORITHMS:
            return self._rooted
        return {name: value for name, value in self.settings.items() if name not in _TREE_SETTINGS}

    def _counted(self, function: Callable[..., Any], recvcounts: Any) -> Callable[..., Any] | None:
        """A reduce-scatter with mpi4py's name of the counts.

        None without counts, since only MPI knows the blocks then.
        """
        if recvcounts is None and not isinstance(self.comm, Transport):
            return None
        return lambda *buffers, recvcounts, **rest: function(*buffers, counts=recvcounts, **rest)

    def _run(
        self,
        method: str,
        ours: Callable[..., Any] | None,
        settings: dict[str, Any],
        buffers: Sequence[Any],
        op: Any = None,
        **rest: Any,
    ) -> Any:
        """Calls ``ours`` if it takes these arguments, else MPI's method. ``op`` is None for no reduction."""
        chosen = None if op is None else self._ours(op)
        given = () if op is None else (chosen,)
        if isinstance(self.comm, Transport):
            if ours is None or (op is not None and chosen is None):
                raise ValueError(f"op must be SUM or MEAN on a transport, not {op!r}")
            return ours(self.transport, *buffers, *given, **rest, **settings)
        dtype = self.settings.get("dtype")
        whole = all(is_in_place(buffer) or is_whole_float_array(buffer, dtype) for buffer in buffers)
        if ours is None or (op is not None and chosen is None) or not whole:
            return self._by_mpi(method, buffers, op, **rest)
        return ours(self.transport, *buffers, *given, **rest, **settings)

    def _ours(self, op: Any) -> Op | None:
        """The operation, if it is one of this package's or mpi4py's SUM."""
        if isinstance(op, Op):
            return op
        if not isinstance(self.comm, Transport) and op == mpi_of(self.comm).SUM:
            return SUM
        return None

    def _by_mpi(self, method: str, arguments: Sequence[Any], op: Any = None, **rest: Any) -> Any:
        """Calls the communicator's own method, with a warning where due."""
        if isinstance(self.comm, Transport):
            raise TypeError(f"{method} on a transport takes arrays of {', '.join(FLOATS)}")
        if op is MEAN:
            raise TypeError("MEAN is for arrays of floating-point values")
        self._said(method, arguments, op, mpi_of(self.comm))
        if op is not None:
            rest["op"] = mpi_of(self.comm).SUM if op is SUM else op
        return getattr(self.comm, method)(*arguments, **rest)

    def _descriptions(self, value: Any) -> list[Any]:
        """Type and shape of every rank's value. None if it is not a float array, and with path "off"."""
        if self.settings.get("path") == "off" and not isinstance(self.comm, Transport):
            return [None] * self.size
        mine = (value.dtype.name, value.shape) if is_float_array(value) else None
        found: list[Any] = []
        in_order(
            self.transport, self.settings.get("timeout"), lambda: found.extend(self.transport.exchange(mine))
        )
        return found

    def _all_arrays(self, value: Any, alike: bool = False) -> list[tuple[int, ...]]:
        """The shapes of all ranks' values. [] unless all are arrays of one floating-point type.

        With ``alike``, they must also have one shape.
        """
        found = self._descriptions(value)
        if None in found or len({kind for kind, _ in found}) != 1:
            return []
        shapes = [tuple(shape) for _, shape in found]
        return [] if alike and len(set(shapes)) != 1 else shapes

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.comm, name)
        if isinstance(self.comm, Transport):
            return method
        mpi = mpi_of(self.comm)
        if name in MAKERS:

            def make(*arguments: Any, **named: Any) -> Any:
                made = method(*arguments, **named)
                if made == mpi.COMM_NULL:
                    return made
                settings = dict(self.settings)
                if settings.get("group_size"):
                    settings["group_size"] = min(settings["group_size"], made.size)
                return CompressedCommunicator(made, **settings)

            return make
        if not (REDUCTIONS.fullmatch(name) or MOVEMENTS.fullmatch(name)):
            return method

        def carry(*arguments: Any, **named: Any) -> Any:
            given = [*arguments, *named.values()]
            reduces = REDUCTIONS.fullmatch(name)
            op = next((a for a in given if isinstance(a, mpi.Op)), mpi.SUM) if reduces else None
            self._said(name, given, op, mpi)
            return method(*arguments, **named)

        return carry
