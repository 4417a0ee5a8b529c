# SPDX-License-Identifier: BSD-2-Clause
"""A communicator whose ``Allreduce`` compresses and can stand where mpi4py's stands."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np

from ..transport import Transport
from ..transport.mpi import mpi_of
from .allreduce import MEAN, SUM, allreduce_comp
from .buffers import CONVERTED, is_in_place
from .call import transport_of
from .settings import Op

_MAKERS = frozenset(
    "Clone Create Create_cart Create_dist_graph Create_dist_graph_adjacent Create_graph Create_group Dup "
    "Dup_with_info Split Split_type Sub".split()
)
_REDUCTIONS = re.compile(r"I?(All)?reduce(_scatter)?(_block)?(_init)?|I?(ex)?scan(_init)?", re.IGNORECASE)
_OPERATIONS = "SUM MAX MIN PROD LAND LOR LXOR BAND BOR BXOR MAXLOC MINLOC REPLACE NO_OP".split()


class CompressedCommunicator:
    """Wraps an mpi4py communicator or a `Transport`.

    ``Allreduce`` of floating-point arrays with SUM (mpi4py's, or this package's `SUM` and `MEAN`) goes
    through `allreduce_comp` with the ``settings`` given here (its keyword arguments). Everything else, other
    types, operations and methods, goes to the communicator itself.

    What goes to MPI and could have been meant to be compressed, the other reductions, is said once for each
    method, type and operation, in a ``UserWarning`` at rank 0 (not with ``path="off"``).

    ``transport``: what carries the data, if not the communicator's own MPI; `connect_mpi` makes one.

    The methods that make a communicator (``Split``, ``Dup``, ``Create_group`` and so on; not those that
    return a request or an intercommunicator) make a compressed one with the same settings, whose data go
    through its own MPI. A rank that is left out gets ``COMM_NULL``.
    """

    def __init__(self, comm: Any, *, transport: Transport | None = None, **settings: Any) -> None:
        self.comm = comm
        self.transport = transport_of(comm, settings.get("timeout")) if transport is None else transport
        self.settings = settings
        self._said: set[tuple[str, str, str]] = set()
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
        """All ranks' send buffers, combined, into every receive buffer; arguments as mpi4py's.

        With SUM or MEAN of floats the result is `allreduce_comp`'s, the same bits at every rank.
        """
        ours = self._op(op)
        if isinstance(self.comm, Transport):
            if ours is None:
                raise ValueError(f"op must be SUM or MEAN on a transport, not {op!r}")
            allreduce_comp(self.transport, sendbuf, recvbuf, ours, **self.settings)
        elif ours is None or not (self._floats(recvbuf) and (is_in_place(sendbuf) or self._floats(sendbuf))):
            if ours is MEAN:
                raise TypeError("MEAN is for arrays of floating-point values")
            self._say("Allreduce", (sendbuf, recvbuf), op)
            self.comm.Allreduce(sendbuf, recvbuf, mpi_of(self.comm).SUM if ours is SUM else op)
        else:
            allreduce_comp(self.transport, sendbuf, recvbuf, ours, **self.settings)

    def _op(self, op: Any) -> Op | None:
        """The operation if it is one of this package's, or stands for one."""
        if isinstance(op, Op):
            return op
        if not isinstance(self.comm, Transport) and op == mpi_of(self.comm).SUM:
            return SUM
        return None

    def _floats(self, buffer: Any) -> bool:
        """Whether a buffer is an array that `allreduce_comp` takes as a whole."""
        if isinstance(buffer, list | tuple):
            if not buffer or not isinstance(buffer[0], np.ndarray):
                return False
            array, rest = buffer[0], buffer[1:]
            # [array, count, type] with fewer values than the array holds, or counts per rank, are MPI's
            # matter.
            counts = [item for item in rest if isinstance(item, int)]
            if any(count != array.size for count in counts) or any(isinstance(item, tuple) for item in rest):
                return False
            types = [item for item in rest if not isinstance(item, int)]
            if any(not self._is_type_of(item, array) for item in types):
                return False
            buffer = array
        return isinstance(buffer, np.ndarray) and (
            buffer.dtype.name in ("float32", *CONVERTED) and buffer.dtype.isnative
        )

    @staticmethod
    def _is_type_of(datatype: Any, array: np.ndarray[Any, Any]) -> bool:
        """Whether an MPI datatype (or its name) is that of an array's elements."""
        code = datatype if isinstance(datatype, str) else getattr(datatype, "typechar", "")
        return bool(code == array.dtype.char)

    def _say(self, method: str, arguments: Iterable[Any], op: Any) -> None:
        """Warns, once, that a call goes to MPI as it is."""
        mpi = mpi_of(self.comm)
        buffers = [a[0] if isinstance(a, list | tuple) and a else a for a in arguments]
        first = next((b for b in buffers if not is_in_place(b)), None)
        kind = first.dtype.name if isinstance(first, np.ndarray) else type(first).__name__
        named = (
            "SUM" if op is SUM else next((o for o in _OPERATIONS if getattr(mpi, o) == op), "an operation")
        )
        told = (method, kind, named)
        if told in self._said or self.rank != 0 or self.settings.get("path") == "off":
            return
        self._said.add(told)
        warnings.warn(
            f"{method} of {kind} with {named} goes to MPI as it is; compressed is Allreduce with SUM or MEAN "
            f"of whole arrays of float32, {', '.join(CONVERTED)}",
            stacklevel=3,
        )

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.comm, name)
        if isinstance(self.comm, Transport):
            return method
        if name in _MAKERS:

            def make(*arguments: Any, **named: Any) -> Any:
                made = method(*arguments, **named)
                if made == mpi_of(self.comm).COMM_NULL:
                    return made
                settings = dict(self.settings)
                if settings.get("group_size"):
                    settings["group_size"] = min(settings["group_size"], made.size)
                return CompressedCommunicator(made, **settings)

            return make
        if _REDUCTIONS.fullmatch(name):
            mpi = mpi_of(self.comm)

            def reduce(*arguments: Any, **named: Any) -> Any:
                given = [*arguments, *named.values()]
                self._say(name, given, next((a for a in given if isinstance(a, mpi.Op)), mpi.SUM))
                return method(*arguments, **named)

            return reduce
        return method
