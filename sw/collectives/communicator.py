# SPDX-License-Identifier: BSD-2-Clause
"""A communicator that compresses collectives of floats, as a replacement for mpi4py's."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from importlib import import_module
from inspect import signature
from typing import Any, Concatenate, ParamSpec

import numpy as np

from ..codec import remedy
from ..transport import Transport
from ..transport.mpi import mpi_of, transport_of
from .agreement import agree, exchanged, is_whole, moving_data
from .allreduce import MEAN, SUM, allreduce_comp, iallreduce_comp
from .blockwise import allgather_comp, iallgather_comp, ireduce_scatter_comp, reduce_scatter_comp
from .ledger import Statistics, ledger_of
from .mpi_arguments import (
    FLOATS,
    MAKERS,
    MOVEMENTS,
    REDUCTIONS,
    SaidOnce,
    is_float_array,
    is_whole_float_array,
)
from .requests import plan
from .rooted import bcast_comp, check_root, ibcast_comp, ireduce_comp, reduce_comp, root_term
from .settings import RING_ALGORITHMS, Op
from .values.buffers import is_in_place

P = ParamSpec("P")

_TREES = ("legs", "upper")
_GROUPS = (*_TREES, "algorithm", "group_size")
_DESCRIBED = (*FLOATS, "uint16")
"""Types of arrays in messages; uint16 are bfloat16 patterns."""
_MOST_DIMENSIONS = 32
_MOST_VALUES = 1 << 48
"""Limit on the values of an array that another rank describes: more than any host has."""


# The parameters of mpi4py's methods.
def _reduction(comm: CompressedCommunicator, sendbuf: Any, recvbuf: Any, op: Any = SUM) -> Any: ...
def _to_root(
    comm: CompressedCommunicator, sendbuf: Any, recvbuf: Any, op: Any = SUM, root: int = 0
) -> Any: ...
def _counted(
    comm: CompressedCommunicator, sendbuf: Any, recvbuf: Any, recvcounts: Any = None, op: Any = SUM
) -> Any: ...
def _gathering(comm: CompressedCommunicator, sendbuf: Any, recvbuf: Any) -> Any: ...
def _from_root(comm: CompressedCommunicator, buf: Any, root: int = 0) -> Any: ...


def _method(
    name: str,
    function: Callable[..., Any],
    parameters: Callable[Concatenate[CompressedCommunicator, P], Any],
    left_out: tuple[str, ...] = (),
) -> Callable[Concatenate[CompressedCommunicator, P], Any]:
    """Make a method of mpi4py's that calls a function with all settings but those ``left_out``."""
    shape = signature(parameters)

    def method(self: CompressedCommunicator, *args: P.args, **kwargs: P.kwargs) -> Any:
        bound = shape.bind(self, *args, **kwargs)
        bound.apply_defaults()
        _, *given = bound.arguments.items()
        return self._run(name, function, left_out, dict(given))

    method.__name__, method.__qualname__ = name, f"CompressedCommunicator.{name}"
    method.__doc__ = f"`{function.__name__}` with mpi4py's arguments."
    method.__signature__ = shape  # type: ignore[attr-defined]
    return method


def _is_description(value: Any) -> bool:
    """Tell whether a rank's message is None, or the type and the shape of an array that it can have."""
    match value:
        case None:
            return True
        case [str(kind), list(shape)] if kind in _DESCRIBED and len(shape) <= _MOST_DIMENSIONS:
            if all(is_whole(length, range(_MOST_VALUES)) for length in shape):
                return math.prod(max(1, length) for length in shape) < _MOST_VALUES
    return False


class CompressedCommunicator:
    """Wraps an mpi4py communicator or a `Transport`.

    It compresses whole arrays of floating-point values in ``Allreduce``, ``Reduce``,
    ``Reduce_scatter_block``, ``Reduce_scatter`` with its counts, ``Allgather`` and ``Bcast``. It also does so
    in their non-blocking variants (``Iallreduce`` ...), which return a `CollectiveRequest`, and in
    ``allreduce``, ``reduce``, ``allgather`` and ``bcast`` if all ranks give such arrays. Reductions are those
    with mpi4py's SUM, or this package's `SUM` and `MEAN`.

    These methods call the functions of this package with ``settings``, keyword arguments of `allreduce_comp`.
    An algorithm that only an all-reduce has is replaced by a ring elsewhere. ``Bcast`` and ``Allgather``
    refuse the scales "tensor" and "rms", which are for sums. After both, the sender's values are replaced by
    those that the others receive.

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
        """Return this process's rank."""
        return int(self.comm.rank)

    def Get_size(self) -> int:
        """Return the number of ranks."""
        return int(self.comm.size)

    @property
    def rank(self) -> int:
        """This process's rank."""
        return self.Get_rank()

    @property
    def size(self) -> int:
        """The number of ranks."""
        return self.Get_size()

    def statistics(self) -> Statistics:
        """Return what the compressed collectives of this communicator's transport have cost so far."""
        return ledger_of(self.transport).statistics()

    Allreduce = _method("Allreduce", allreduce_comp, _reduction)
    Iallreduce = _method("Iallreduce", iallreduce_comp, _reduction)
    Reduce = _method("Reduce", reduce_comp, _to_root, _GROUPS)
    Ireduce = _method("Ireduce", ireduce_comp, _to_root, _GROUPS)
    Reduce_scatter_block = _method("Reduce_scatter_block", reduce_scatter_comp, _reduction, _TREES)
    Ireduce_scatter_block = _method("Ireduce_scatter_block", ireduce_scatter_comp, _reduction, _TREES)
    Reduce_scatter = _method("Reduce_scatter", reduce_scatter_comp, _counted, _TREES)
    Ireduce_scatter = _method("Ireduce_scatter", ireduce_scatter_comp, _counted, _TREES)
    Allgather = _method("Allgather", allgather_comp, _gathering, _TREES)
    Iallgather = _method("Iallgather", iallgather_comp, _gathering, _TREES)
    Bcast = _method("Bcast", bcast_comp, _from_root, _GROUPS)
    Ibcast = _method("Ibcast", ibcast_comp, _from_root, _GROUPS)

    def allreduce(self, sendobj: Any, op: Any = SUM) -> Any:
        """Return the sum of all ranks' arrays, as a new array. Other objects go to MPI's own method."""
        if self._ours(op) is None or not self._all_arrays(sendobj, alike=True):
            return self._by_mpi("allreduce", (sendobj,), op)
        result = np.empty_like(sendobj)
        self.Allreduce(sendobj, result, op)
        return result

    def reduce(self, sendobj: Any, op: Any = SUM, root: int = 0) -> Any:
        """Return the sum of all ranks' arrays, as a new array at the root and None elsewhere.

        Other objects go to MPI's own method.
        """
        if self._ours(op) is None or not self._all_arrays(sendobj, alike=True):
            return self._by_mpi("reduce", (sendobj,), op, root=root)
        result = np.empty_like(sendobj) if self.rank == root else None
        self.Reduce(sendobj, result, op, root)
        return result

    def allgather(self, sendobj: Any) -> list[Any]:
        """Return all ranks' arrays, of any shapes, as new ones. Other objects go to MPI's own method."""
        shapes = self._all_arrays(sendobj)
        if not shapes:
            gathered: list[Any] = self._by_mpi("allgather", (sendobj,))
            return gathered
        counts = [int(np.prod(shape)) for shape in shapes]
        whole = np.empty(sum(counts), sendobj.dtype)
        allgather_comp(self.transport, sendobj, whole, counts=counts, **self._settings(_TREES))
        parts = np.split(whole, np.cumsum(counts)[:-1])
        return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]

    def bcast(self, obj: Any, root: int = 0) -> Any:
        """Return the root's array, as a new one at every rank. Other objects go to MPI's own method."""
        described = self._of_root(obj, root)
        if described is None:
            return self._by_mpi("bcast", (obj,), root=root)
        kind, shape = described
        with moving_data(self.transport):
            if kind == "bfloat16":
                import_module("ml_dtypes")  # names the type to NumPy
            result = np.array(obj) if self.rank == root else np.empty(shape, kind)
        bcast_comp(self.transport, result, root, **self._settings(_GROUPS))
        return result

    def _run(
        self, name: str, function: Callable[..., Any], left_out: tuple[str, ...], given: dict[str, Any]
    ) -> Any:
        """Call ``function`` if it takes these arguments, else MPI's method.

        ``given`` are the arguments by mpi4py's names; ``op`` is None for no reduction.
        """
        buffers = [given.pop(each) for each in ("sendbuf", "recvbuf", "buf") if each in given]
        if len(buffers) == 2 and given.get("root", self.rank) != self.rank:
            buffers[1] = None
        op, rest = given.pop("op", None), dict(given)
        if op is not None:
            rest["op"] = self._ours(op)
        if "recvcounts" in rest:
            rest["counts"] = rest.pop("recvcounts")
        if isinstance(self.comm, Transport):
            if op is not None and rest["op"] is None:
                raise ValueError(f"op must be SUM or MEAN on a transport, not {op!r}")
        else:
            dtype = self.settings.get("dtype")
            whole = all(is_in_place(buffer) or is_whole_float_array(buffer, dtype) for buffer in buffers)
            # Without counts, only MPI knows the blocks.
            if not whole or rest.get("op", SUM) is None or rest.get("counts", ()) is None:
                return self._by_mpi(name, buffers, op, **given)
        return function(self.transport, *buffers, **rest, **self._settings(left_out))

    def _settings(self, left_out: tuple[str, ...]) -> dict[str, Any]:
        """Return the settings except ``left_out``. A ring replaces algorithms that only an all-reduce has."""
        if left_out and self.settings.get("algorithm", "ring") not in RING_ALGORITHMS:
            left_out = _GROUPS
        return {name: value for name, value in self.settings.items() if name not in left_out}

    def _ours(self, op: Any) -> Op | None:
        """Return the operation if it is this package's, or SUM for mpi4py's SUM; else None."""
        if isinstance(op, Op):
            return op
        if not isinstance(self.comm, Transport) and op == mpi_of(self.comm).SUM:
            return SUM
        return None

    def _by_mpi(self, method: str, arguments: Sequence[Any], op: Any = None, **rest: Any) -> Any:
        """Call the communicator's own method; warn if compression may have been intended."""
        if isinstance(self.comm, Transport):
            value, found = arguments[0], ""
            if isinstance(value, np.ndarray) and not self._description(value):
                found = f", not {value.dtype}{remedy(value.dtype)}"
            raise TypeError(f"{method} on a transport takes arrays of {', '.join(FLOATS)}{found}")
        if op is MEAN:
            raise TypeError("MEAN is for arrays of floating-point values")
        self._said(method, arguments, op, mpi_of(self.comm))
        if op is not None:
            rest["op"] = mpi_of(self.comm).SUM if op is SUM else op
        return getattr(self.comm, method)(*arguments, **rest)

    def _description(self, value: Any) -> tuple[str, tuple[int, ...]] | None:
        """Return an array's type and shape; None for what the collectives do not take."""
        floats = is_float_array(value, self.settings.get("dtype"))
        return (value.dtype.name, value.shape) if floats else None

    def _descriptions(self, value: Any) -> list[Any]:
        """Return every rank's type and shape; None if the value is not a float array, and with path "off"."""
        if self.settings.get("path") == "off" and not isinstance(self.comm, Transport):
            return [None] * self.size
        mine = self._description(value)
        found: list[Any] = []

        def exchange(transport: Transport) -> None:
            found.extend(exchanged(transport, mine, _is_description))

        plan(self.transport, self.settings.get("timeout"), exchange).run()
        return found

    def _of_root(self, value: Any, root: Any) -> Any:
        """Return the root's description; see `_descriptions`. Collective: the ranks agree on the root."""
        if self.settings.get("path") == "off" and not isinstance(self.comm, Transport):
            return None
        found: list[Any] = []

        def describe(transport: Transport) -> None:
            mine, error = None, None
            try:
                if self.rank == check_root(root, self.size):
                    mine = self._description(value)
            except (TypeError, ValueError) as problem:
                error = problem
            terms = {"collective": "broadcast", "root": root_term(root)}
            found.extend(agree(transport, terms, mine, error, _is_description))

        plan(self.transport, self.settings.get("timeout"), describe).run()
        return found[root]

    def _all_arrays(self, value: Any, alike: bool = False) -> list[tuple[int, ...]]:
        """Return the shapes of all ranks' values, or [] unless all are arrays of one floating-point type.

        With ``alike``, they must also have one shape.
        """
        found = self._descriptions(value)
        # uint16 is described only as the patterns of bfloat16.
        if None in found or len({kind.replace("uint16", "bfloat16") for kind, _ in found}) != 1:
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
