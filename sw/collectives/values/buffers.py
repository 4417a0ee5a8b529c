# SPDX-License-Identifier: BSD-2-Clause
"""The callers' arrays, of several types, as fp32 lanes.

C-contiguous float32 is used without a copy, so an all-reduce and an all-gather need no memory besides the
receive buffer. So are float16 and bfloat16 where an `inceptionn.Codec` compresses sums in rings in software:
it reads them, and in one ring writes them. Sums are float32: a reduce-scatter, a reduce and groups of ranks
need them in memory, error feedback needs what it sends. Else they, and always float64, are converted into a
float32 array of their size and back, which costs two passes over memory and 4 bytes per value. float64 loses
its precision beyond float32. Results that do not fit the receive buffer's type become infinite.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import index
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...codec import array_of, converted, remedy

HALVES = ("float16", "bfloat16")
CONVERTED = ("float16", "float64", "bfloat16")

Lanes = NDArray[np.float32]


class _InPlace:
    """The type of `IN_PLACE`."""

    def __repr__(self) -> str:
        return "IN_PLACE"


IN_PLACE = _InPlace()
"""The send buffer for values that are in the receive buffer. mpi4py's ``MPI.IN_PLACE`` means the same."""


def is_in_place(buffer: Any) -> bool:
    """Tell whether a send buffer is `IN_PLACE`, None, or mpi4py's ``IN_PLACE``."""
    return buffer is None or buffer is IN_PLACE or type(buffer).__name__ in ("InPlaceType", "InPlace")


@dataclass(frozen=True)
class Loaded:
    """A rank's values as flat lanes: its own values in ``source``, and ``lanes`` for the result.

    ``lanes`` may be ``source`` itself, or the receive buffer's own memory. ``own`` is the part of ``source``
    that this rank contributes. Halves are float16 or uint16 with bfloat16 patterns, all others float32.
    """

    source: Lanes
    lanes: Lanes
    own: slice


class Buffers:
    """A send and a receive buffer of one type, for collectives with the same result at all ranks.

    ``dtype`` "bfloat16" takes arrays of uint16 as bfloat16 patterns; otherwise it is None. Raises
    ``TypeError`` for anything but an array of a floating type, ``ValueError`` for a receive buffer that
    cannot be written or differs from the send buffer in count or type.
    """

    def __init__(self, sendbuf: Any, recvbuf: Any, dtype: str | None = None) -> None:
        if dtype not in (None, "bfloat16"):
            raise ValueError(f"dtype must be None or 'bfloat16', not {dtype!r}")
        self.receive = _array(recvbuf, "recvbuf")
        self.in_place = is_in_place(sendbuf)
        self.send = self.receive if self.in_place else _array(sendbuf, "sendbuf")
        self.type = _type_name(self.receive, dtype, "recvbuf")
        if not self.receive.flags.writeable:
            raise ValueError("recvbuf is read-only")
        if (name := _type_name(self.send, dtype, "sendbuf")) != self.type:
            raise TypeError(f"sendbuf is {name}, recvbuf is {self.type}")
        self._check_counts()

    def _check_counts(self) -> None:
        if self.send.size != self.receive.size:
            raise ValueError(f"sendbuf has {self.send.size} values, recvbuf {self.receive.size}")

    def terms(self) -> dict[str, Any]:
        """Return the terms that must be equal at all ranks."""
        return {"count": self.receive.size, "dtype": self.type}

    def load(self, halves: bool = False, sums: bool = False) -> Loaded:
        """Return the values as lanes, in the callers' own memory if possible.

        ``halves``: whether float16 and bfloat16 may stay what they are. ``sums``: whether there must be
        float32 memory for sums of them.
        """
        if halves and sums and self.type in HALVES:
            return self._load_halves()
        everything = slice(0, self.send.size)
        direct = self.type == "float32" or (halves and self.type in HALVES)
        if not direct or not self.receive.flags.c_contiguous:
            lanes = _converted(self.send, self.type)
            return Loaded(lanes, lanes, everything)
        lanes, source = _flat(self.receive), _flat(self.send)
        if self.send.flags.c_contiguous and not np.may_share_memory(source, lanes):
            return Loaded(source, lanes, everything)
        if self.send is not self.receive:
            np.copyto(lanes, source)
        return Loaded(lanes, lanes, everything)

    def _load_halves(self) -> Loaded:
        """Return the values as they are, and float32 memory for the sums of those that this rank makes."""
        return Loaded(_flat(self.send), np.empty(self.send.size, np.float32), slice(0, self.send.size))

    def store(self, lanes: Lanes) -> None:
        """Store the result in the receive buffer, unless it is already there."""
        _store(lanes, self.receive, self.type)


class RootBuffers(Buffers):
    """Buffers of a reduction to one rank. The receive buffers of the others are ignored."""

    def __init__(self, sendbuf: Any, recvbuf: Any, dtype: str | None, is_root: bool) -> None:
        if not is_root:
            if is_in_place(sendbuf):
                raise ValueError("sendbuf must be an array at the ranks that are not the root")
            sent = _array(sendbuf, "sendbuf")
            recvbuf = np.empty(sent.shape, sent.dtype)
        super().__init__(sendbuf, recvbuf, dtype)
        self.is_root = is_root

    def load(self, halves: bool = False, sums: bool = False) -> Loaded:
        return super().load(halves, True)

    def store(self, lanes: Lanes) -> None:
        if self.is_root:
            super().store(lanes)


class BlockBuffers(Buffers):
    """Two buffers, of which one holds a block and the other the blocks of all ranks, in rank order.

    ``counts`` are the lanes of each rank's block. None means that all blocks have the length of the shorter
    buffer.
    """

    def __init__(
        self,
        sendbuf: Any,
        recvbuf: Any,
        dtype: str | None,
        rank: int,
        size: int,
        counts: Sequence[int] | None,
    ) -> None:
        self.rank, self.size = rank, size
        self._given = None if counts is None else _counts(counts, size)
        super().__init__(sendbuf, recvbuf, dtype)

    def terms(self) -> dict[str, Any]:
        return {"counts": self._given or self.counts[0], "dtype": self.type}

    def _set_counts(
        self, whole: NDArray[Any], block: NDArray[Any] | None, name: str, block_name: str
    ) -> None:
        """Set ``counts``. ``block`` is None if the block is a part of ``whole``."""
        if self._given is not None:
            self.counts = self._given
        elif block is not None:
            self.counts = [block.size] * self.size
        elif whole.size % self.size:
            raise ValueError(f"{name} has {whole.size} values, which {self.size} ranks cannot share evenly")
        else:
            self.counts = [whole.size // self.size] * self.size
        if whole.size != sum(self.counts):
            raise ValueError(
                f"{name} has {whole.size} values, the blocks of the {self.size} ranks have {sum(self.counts)}"
            )
        if block is not None and block.size != self.counts[self.rank]:
            raise ValueError(
                f"{block_name} has {block.size} values, the block of rank {self.rank} has "
                f"{self.counts[self.rank]}"
            )

    @property
    def own(self) -> slice:
        """The place of this rank's block among all lanes."""
        start = sum(self.counts[: self.rank])
        return slice(start, start + self.counts[self.rank])


class ScatterBuffers(BlockBuffers):
    """Buffers of a reduce-scatter: all blocks in ``sendbuf``, and this rank's sum in ``recvbuf``.

    In place, ``recvbuf`` holds all blocks, and gets the sum at its start.
    """

    def _check_counts(self) -> None:
        if self.in_place and not self.receive.flags.c_contiguous:
            raise ValueError("recvbuf must be C-contiguous for a reduce-scatter in place")
        whole, block = ("recvbuf", None) if self.in_place else ("sendbuf", self.receive)
        self._set_counts(self.send, block, whole, "recvbuf")

    def load(self, halves: bool = False, sums: bool = False) -> Loaded:
        if halves and self.type in HALVES:
            return self._load_halves()
        everything = slice(0, self.send.size)
        if self.type == "float32" and self.send.flags.c_contiguous:
            source: Lanes = self.send.reshape(-1)
            lanes = source if self.in_place else np.empty(source.size, np.float32)
            return Loaded(source, lanes, everything)
        lanes = _converted(self.send, self.type)
        return Loaded(lanes, lanes, everything)

    def store(self, lanes: Lanes) -> None:
        own = lanes[self.own]
        into = self.receive.reshape(-1)[: own.size] if self.in_place else self.receive
        if np.may_share_memory(own, into):
            own = own.copy()
        _store(own, into, self.type)


class GatherBuffers(BlockBuffers):
    """Buffers of an all-gather: this rank's block in ``sendbuf``, and all blocks in ``recvbuf``.

    In place, ``recvbuf`` holds this rank's block at its place.
    """

    def _check_counts(self) -> None:
        self._set_counts(self.receive, None if self.in_place else self.send, "recvbuf", "sendbuf")

    def load(self, halves: bool = False, sums: bool = False) -> Loaded:
        direct = self.type == "float32" and self.receive.flags.c_contiguous
        lanes: Lanes = self.receive.reshape(-1) if direct else np.empty(self.receive.size, np.float32)
        if not self.in_place:
            values = self.send.reshape(-1)
            lanes[self.own] = values if self.type == "float32" else _converted(values, self.type)
        elif not direct:
            lanes[self.own] = _converted(self.receive.reshape(-1)[self.own], self.type)
        return Loaded(lanes, lanes, self.own)


def _counts(counts: Sequence[int], size: int) -> list[int]:
    """Return the counts as a list. Raise ``ValueError`` or ``TypeError`` for anything else."""
    try:
        found = [index(count) for count in counts]
    except TypeError:
        raise TypeError(f"counts must be whole numbers, one per rank, not {counts!r}") from None
    if len(found) != size or any(count < 0 for count in found):
        raise ValueError(f"counts must be {size} whole numbers, one per rank, not {counts!r}")
    return found


def _flat(array: NDArray[Any]) -> NDArray[Any]:
    """Return an array's values in one dimension, a view if it is contiguous; bfloat16 as uint16."""
    flat = array.reshape(-1)
    return flat.view(np.uint16) if flat.dtype.name == "bfloat16" else flat


def _converted(array: NDArray[Any], type_name: str) -> Lanes:
    """Copy an array's values into a flat float32 array."""
    flat = array.reshape(-1)
    if type_name != "float64":
        return converted(flat, patterns=True)
    with np.errstate(over="ignore"):
        return flat.astype(np.float32)


def _store(lanes: Lanes, into: NDArray[Any], type_name: str) -> None:
    """Store lanes in an array of a type, unless they are already there."""
    if not lanes.size or np.shares_memory(lanes, into):
        return
    if type_name == "float64":
        np.copyto(into, lanes.reshape(into.shape))
    elif into.flags.c_contiguous:
        converted(lanes, out=into)
    else:
        kind = "bfloat16" if into.dtype == np.uint16 else into.dtype
        np.copyto(into, converted(lanes, kind).reshape(into.shape))


def _array(buffer: Any, name: str) -> NDArray[Any]:
    """Return a NumPy array over a buffer. For mpi4py's form ``[array, ...]`` it is the array."""
    given = buffer
    if isinstance(buffer, list | tuple) and buffer:
        buffer = buffer[0]
    if isinstance(buffer, np.ndarray):
        return np.asarray(buffer)  # of a matrix, which never has one dimension, the array
    try:
        return np.asarray(memoryview(buffer))
    except TypeError:
        raise TypeError(f"{name} must be an array, not {type(given)!r}{array_of(given)}") from None


def _type_name(array: NDArray[Any], dtype: str | None, name: str) -> str:
    if array.dtype == np.float32:  # not by its name, which takes as long as all else here
        return "float32"
    found = array.dtype.name
    if dtype == "bfloat16" and found == "uint16":
        return "bfloat16"
    if found in CONVERTED and array.dtype.isnative:
        return found
    refused = f"{array.dtype}{remedy(array.dtype, (np.float32, np.float16, np.float64), name == 'sendbuf')}"
    raise TypeError(f"{name} must be float32, float16, bfloat16 or float64, not {refused}")
