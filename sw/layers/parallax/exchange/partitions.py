# SPDX-License-Identifier: BSD-2-Clause
"""The assignment of a sparse variable's rows to partitions, and of partitions to servers."""

from dataclasses import dataclass

import numpy as np

from .row_sets import MOST_ROWS, Rows


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
        if self.servers < 1:
            raise ValueError(f"servers must be at least 1, not {self.servers!r}")

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
