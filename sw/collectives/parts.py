# SPDX-License-Identifier: BSD-2-Clause
"""How a vector is cut: blocks, one per rank, and sub-blocks, one per message."""

from __future__ import annotations

from dataclasses import dataclass

from ..wire import STREAM_LANES

SUB_BLOCK = 1 << 17
"""Lanes of a sub-block that are aimed at: large enough to hide the cost of a message, small enough for the
caches, and for compression, transfer and summation to overlap."""

_GRID = 16
"""Blocks begin at multiples of this many lanes: a cache line."""


@dataclass(frozen=True)
class Parts:
    """``count`` lanes in ``blocks`` blocks of ``subs`` sub-blocks; the last ones may be short or empty."""

    count: int
    blocks: int
    target: int = SUB_BLOCK

    @property
    def block_lanes(self) -> int:
        """Lanes of a full block."""
        return -(-self.count // (self.blocks * _GRID)) * _GRID

    @property
    def subs(self) -> int:
        """Sub-blocks of every block."""
        return max(1, round(self.block_lanes / self.target))

    @property
    def sub_lanes(self) -> int:
        """Lanes of a full sub-block: whole blocks of the stream where there is more than one."""
        lanes = -(-self.block_lanes // self.subs)
        return lanes if self.subs == 1 else -(-lanes // STREAM_LANES) * STREAM_LANES

    def block(self, block: int) -> slice:
        """The lanes of a block."""
        return slice(
            min(self.count, block * self.block_lanes), min(self.count, (block + 1) * self.block_lanes)
        )

    def sub(self, block: int, sub: int) -> slice:
        """The lanes of a sub-block."""
        whole = self.block(block)
        start = min(whole.stop, whole.start + sub * self.sub_lanes)
        return slice(start, min(whole.stop, start + self.sub_lanes))
