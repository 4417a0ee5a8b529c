# SPDX-License-Identifier: BSD-2-Clause
"""A communicator whose ``Allreduce`` compresses and can stand where mpi4py's stands."""

from __future__ import annotations

from typing import Any

import numpy as np

from inceptionn.collectives.allreduce import MEAN, SUM, allreduce_comp, transport_of
from inceptionn.collectives.buffers import CONVERTED, is_in_place
from inceptionn.collectives.settings import Op
from inceptionn.transport import Transport
from inceptionn.transport.mpi import mpi_of


class CompressedCommunicator:
    """Wraps an mpi4py communicator or a `Transport`.

    ``Allreduce`` of floating-point arrays with SUM (mpi4py's, or this package's `SUM` and `MEAN`) goes
    through `allreduce_comp` with the ``settings`` given here (its keyword arguments). Everything else, other
    types, operations and methods, goes to the communicator itself.

    ``transport``: what carries the data, if not the communicator's own MPI; `connect_mpi` makes one.
    """

    def __init__(self, comm: Any, *, transport: Transport | None = None, **settings: Any) -> None:
        self.comm = comm
        self.transport = transport_of(comm, settings.get("timeout")) if transport is None else transport
        self.settings = settings
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

    def __getattr__(self, name: str) -> Any:
        return getattr(self.comm, name)
