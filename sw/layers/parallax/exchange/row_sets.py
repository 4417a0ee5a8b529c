# SPDX-License-Identifier: BSD-2-Clause
"""Sets of row numbers, their form in messages, and the partitions to which a variable's rows belong."""

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Rows: TypeAlias = NDArray[np.int64]

_LIST, _BITMAP = 0, 1
MOST_ROWS = 1 << 32
"""Row numbers are sent as 32 bits."""


def check_rows(rows: NDArray[Any], count: int) -> None:
    """Raise ``ValueError`` naming the first row outside 0..count-1."""
    if rows.size and (int(rows.min()) < 0 or int(rows.max()) >= count):
        wrong = rows[(rows < 0) | (rows >= count)][0]
        raise ValueError(f"rows must be within 0..{count - 1}, not {int(wrong)}")


def encode_rows(rows: Rows, count: int) -> NDArray[np.uint8]:
    """Encode ascending rows of ``0..count-1`` with 32 bits each, or as a bitmap, whichever is shorter.

    The first byte is 0 for little-endian uint32s, and 1 for a bitmap, whose first row is bit 0 of its first
    byte.
    """
    if 4 * rows.size <= -(-count // 8):
        body = rows.astype("<u4").view(np.uint8)
        kind = _LIST
    else:
        present = np.zeros(count, np.bool_)
        present[rows] = True
        body = np.packbits(present, bitorder="little")
        kind = _BITMAP
    return np.concatenate((np.array([kind], np.uint8), body))


def most_row_bytes(count: int) -> int:
    """Return the largest number of bytes that `encode_rows` makes."""
    return 1 + -(-count // 8)


def decode_rows(data: NDArray[np.uint8], count: int) -> Rows:
    """Decode the ascending rows of `encode_rows`.

    Raises ``ValueError`` for anything that it does not make.
    """
    if data.size < 1 or data[0] not in (_LIST, _BITMAP):
        raise ValueError(f"a row set begins with 0 or 1, not {data[:1].tolist()}")
    body = data[1:]
    if data[0] == _BITMAP:
        if body.size != -(-count // 8):
            raise ValueError(f"a bitmap of {count} rows has {-(-count // 8)} bytes, not {body.size}")
        bits = np.unpackbits(body, bitorder="little")
        if bits[count:].any():
            raise ValueError(f"the bitmap names rows beyond {count - 1}")
        return np.flatnonzero(bits[:count]).astype(np.int64)
    if body.size % 4:
        raise ValueError(f"row numbers take 4 bytes each, not {body.size} in all")
    rows = np.frombuffer(body.tobytes(), "<u4").astype(np.int64)
    if rows.size > 1 and not bool((rows[1:] > rows[:-1]).all()):
        raise ValueError("row numbers must ascend")
    check_rows(rows, count)
    return rows


@dataclass(frozen=True)
class Partitions:
    """``rows`` rows in ``count`` partitions on ``servers`` servers, both assigned round-robin.

    Row r is row ``r // count`` of partition ``r % count``. This spreads frequent rows, which are adjacent in
    a vocabulary, over all partitions. Server ``p % servers`` holds partition p. Raises ``ValueError`` for no
    partition or more partitions than rows.
    """

    rows: int
    count: int
    servers: int

    def __post_init__(self) -> None:
        if not 1 <= self.rows <= MOST_ROWS:
            raise ValueError(f"rows must be within 1..{MOST_ROWS}, not {self.rows!r}")
        if not 1 <= self.count <= self.rows:
            raise ValueError(f"partitions must be within 1..{self.rows}, the rows, not {self.count!r}")

    def size(self, partition: int) -> int:
        """Return the number of rows of a partition."""
        return len(range(partition, self.rows, self.count))

    def server(self, partition: int) -> int:
        """Return the server that holds a partition."""
        return partition % self.servers

    def of_server(self, server: int) -> range:
        """Return the partitions that a server holds."""
        return range(server, self.count, self.servers)

    def split(self, rows: Rows) -> list[tuple[Rows, Rows]]:
        """Divide ascending rows by partition: their positions in ``rows``, their rows in the partition."""
        belongs = rows % self.count
        order = np.argsort(belongs, kind="stable")
        ends = np.searchsorted(belongs[order], np.arange(self.count + 1))
        positions = [order[start:end] for start, end in zip(ends[:-1], ends[1:], strict=True)]
        return [(where, rows[where] // self.count) for where in positions]
