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
    """What a message is."""

    PUSH = 1
    """Worker to server: gradients; the steps are those of the pushes."""
    SKIP = 2
    """Worker to server: these steps have no gradient of this worker."""
    PULL = 3
    """Worker to server: weights wanted, in these versions at least."""
    WEIGHTS = 4
    """Server to worker: the answer; the steps are the versions."""
    DONE = 5
    """Worker to server: there will be no more from this worker."""
    BYE = 6
    """Server to worker: there will be no more from this server."""
    ALIVE = 7
    """Server to a worker that is done: others are not."""


@dataclass(frozen=True)
class Envelope:
    """The header of a message; ``data`` bytes of values follow it as a message of their own, if any.

    ``ticket``: which pull it belongs to. ``meta``: what the leg needs to decode the data.
    """

    kind: Kind
    numbers: Sequence[int] = ()
    steps: Sequence[int] = ()
    ticket: int = 0
    meta: bytes = b""
    data: int = 0

    def pack(self) -> bytes:
        """As bytes; see `most_bytes`."""
        entries = np.zeros(len(self.numbers), _ENTRY)
        entries["number"], entries["step"] = self.numbers, self.steps
        head = _HEAD.pack(self.kind, 0, 0, len(entries), self.ticket, self.data)
        return head + entries.tobytes() + self.meta

    @classmethod
    def unpack(cls, message: bytes | memoryview) -> Envelope:
        """The inverse of `pack`; ``ValueError`` for anything else."""
        if len(message) < _HEAD.size:
            raise ValueError(f"a header has at least {_HEAD.size} bytes, not {len(message)}")
        kind, _, _, count, ticket, data = _HEAD.unpack_from(message)
        end = _HEAD.size + count * _ENTRY.itemsize
        if end > len(message):
            raise ValueError(f"a header of {count} entries has {end} bytes, not {len(message)}")
        entries = np.frombuffer(bytes(message[_HEAD.size : end]), _ENTRY)
        return cls(
            Kind(kind),
            entries["number"].tolist(),
            entries["step"].tolist(),
            ticket,
            bytes(message[end:]),
            data,
        )


def most_bytes(partitions: int, meta_bytes: int) -> int:
    """Largest size of a header in bytes, with ``meta_bytes`` for each partition and once more."""
    return _HEAD.size + partitions * (_ENTRY.itemsize + meta_bytes) + meta_bytes
