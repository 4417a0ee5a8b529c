# SPDX-License-Identifier: BSD-2-Clause
"""What callers hand in: arrays of several types, as the fp32 lanes that the collectives work on.

float32, C-contiguous, is used as it is: the receive buffer is the only memory. float16, bfloat16 and float64
are converted into a float32 array of their size and back, two passes over memory and 4 bytes per value;
float64 loses its precision beyond float32, and results that do not fit the receive buffer's type become
infinite.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .bfloat16 import from_bfloat16, to_bfloat16

CONVERTED = ("float16", "float64", "bfloat16")


class _InPlace:
    """The type of `IN_PLACE`."""

    def __repr__(self) -> str:
        return "IN_PLACE"


IN_PLACE = _InPlace()
"""As a send buffer: the values are in the receive buffer. (mpi4py's ``MPI.IN_PLACE`` does the same.)"""


def is_in_place(buffer: Any) -> bool:
    """Whether a send buffer is `IN_PLACE`, None, or mpi4py's ``IN_PLACE``."""
    return buffer is None or buffer is IN_PLACE or type(buffer).__name__ in ("InPlaceType", "InPlace")


class Buffers:
    """A send and a receive buffer of one type and count.

    ``dtype``: "bfloat16" takes arrays of uint16 as bfloat16 patterns; otherwise None. ``TypeError`` for what
    is no array of a floating type, ``ValueError`` for a receive buffer that cannot be written or has another
    count or type than the send buffer.
    """

    def __init__(self, sendbuf: Any, recvbuf: Any, dtype: str | None = None) -> None:
        if dtype not in (None, "bfloat16"):
            raise ValueError(f"dtype must be None or 'bfloat16', not {dtype!r}")
        self.receive = _array(recvbuf, "recvbuf")
        self.send = self.receive if is_in_place(sendbuf) else _array(sendbuf, "sendbuf")
        self.type = _type_name(self.receive, dtype, "recvbuf")
        if not self.receive.flags.writeable:
            raise ValueError("recvbuf is read-only")
        if (name := _type_name(self.send, dtype, "sendbuf")) != self.type:
            raise TypeError(f"sendbuf is {name}, recvbuf is {self.type}")
        if self.send.size != self.receive.size:
            raise ValueError(f"sendbuf has {self.send.size} values, recvbuf {self.receive.size}")

    @property
    def count(self) -> int:
        """Values in each."""
        return self.receive.size

    def load(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """The values to send, and where the result is to be worked out, as flat float32 arrays.

        They are the callers' own memory where that is possible, and may be the same.
        """
        if self.type == "float32" and self.receive.flags.c_contiguous:
            lanes: NDArray[np.float32] = self.receive.reshape(-1)
            if self.send.flags.c_contiguous and not np.may_share_memory(self.send, lanes):
                return self.send.reshape(-1), lanes
            if self.send is not self.receive:
                np.copyto(lanes, self.send.reshape(-1))
            return lanes, lanes
        lanes = self._converted()
        return lanes, lanes

    def _converted(self) -> NDArray[np.float32]:
        flat = self.send.reshape(-1)
        if self.type == "bfloat16" and flat.dtype == np.uint16:
            return from_bfloat16(flat)
        with np.errstate(over="ignore"):
            return flat.astype(np.float32)

    def store(self, lanes: NDArray[np.float32]) -> None:
        """Puts the result into the receive buffer, unless it is there already."""
        if np.shares_memory(lanes, self.receive):
            return
        result: NDArray[Any] = lanes
        if self.type == "bfloat16" and self.receive.dtype == np.uint16:
            result = to_bfloat16(lanes)
        with np.errstate(over="ignore"):
            np.copyto(self.receive, result.reshape(self.receive.shape), casting="unsafe")


def _array(buffer: Any, name: str) -> NDArray[Any]:
    """A NumPy array over a buffer; ``[array, ...]`` as mpi4py takes it gives its array."""
    if isinstance(buffer, list | tuple) and buffer:
        buffer = buffer[0]
    if isinstance(buffer, np.ndarray):
        return buffer
    try:
        return np.asarray(memoryview(buffer))
    except TypeError:
        raise TypeError(f"{name} must be an array, not {type(buffer)!r}") from None


def _type_name(array: NDArray[Any], dtype: str | None, name: str) -> str:
    found = array.dtype.name
    if dtype == "bfloat16" and found == "uint16":
        return "bfloat16"
    if (found == "float32" or found in CONVERTED) and array.dtype.isnative:
        return found
    raise TypeError(f"{name} must be float32, float16, bfloat16 or float64, not {array.dtype}")
