# SPDX-License-Identifier: BSD-2-Clause
"""The header of every message between workers and servers: kind, partitions, steps."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

_HEAD = struct.Struct("<BBHIIQ")
_ENTRY = np.dtype([("number", "<u4"), ("step", "<u4")])


class Kind(IntEnum):
    """The kind of a message."""

    PUSH = 1
    """Worker to server: gradients. The steps are those of the pushes."""
    SKIP = 2
    """Worker to server: this worker has no gradient for these steps."""
    PULL = 3
    """Worker to server: a request for weights, in these versions or later ones."""
    WEIGHTS = 4
    """Server to worker: the weights requested. The steps are their versions."""
    DONE = 5
    """Worker to server: the last message of this worker."""
    BYE = 6
    """Server to worker: the last message of this server."""
    ALIVE = 7
    """Server to a worker that is done: other workers are not."""


_CARRYING = (Kind.PUSH, Kind.WEIGHTS)
_NAMING = (*_CARRYING, Kind.SKIP, Kind.PULL)


@dataclass(frozen=True)
class Envelope:
    """The header of a message. If ``data`` is not 0, that many bytes of values follow as a separate message.

    ``ticket`` is the number of the pull to which it belongs. ``meta`` holds what the leg needs to decode the
    data.
    """

    kind: Kind
    numbers: Sequence[int] = ()
    steps: Sequence[int] = ()
    ticket: int = 0
    meta: bytes = b""
    data: int = 0

    def pack(self) -> bytes:
        """Return the header as bytes. `most_bytes` is their largest number."""
        entries = np.zeros(len(self.numbers), _ENTRY)
        entries["number"], entries["step"] = self.numbers, self.steps
        head = _HEAD.pack(self.kind, 0, 0, len(entries), self.ticket, self.data)
        return head + entries.tobytes() + self.meta

    @classmethod
    def unpack(cls, message: bytes | memoryview) -> Envelope:
        """Invert `pack`. Raise ``ValueError`` for a malformed header."""
        if len(message) < _HEAD.size:
            raise ValueError(f"a header has at least {_HEAD.size} bytes, not {len(message)}")
        number, _, _, count, ticket, data = _HEAD.unpack_from(message)
        kind = Kind(number)
        if bool(count) != (kind in _NAMING):
            raise ValueError(f"{kind.name} names {count or 'no'} partition{'s' * (count > 1)}")
        end = _HEAD.size + count * _ENTRY.itemsize
        if end > len(message):
            raise ValueError(f"a header of {count} entries has {end} bytes, not {len(message)}")
        if kind not in _CARRYING and (data or end < len(message)):
            raise ValueError(f"{kind.name} carries no values")
        entries = np.frombuffer(bytes(message[_HEAD.size : end]), _ENTRY)
        return cls(
            kind, entries["number"].tolist(), entries["step"].tolist(), ticket, bytes(message[end:]), data
        )


def most_bytes(partitions: int, meta_bytes: int) -> int:
    """Return the largest size of a header in bytes.

    ``meta_bytes`` counts once per partition and once more.
    """
    return _HEAD.size + partitions * (_ENTRY.itemsize + meta_bytes) + meta_bytes
