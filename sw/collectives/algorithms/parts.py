# SPDX-License-Identifier: BSD-2-Clause
"""The division of a vector into blocks, which ranks own, and sub-blocks, one per message."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Protocol

from ...wire import STREAM_LANES

SUB_BLOCK = 7 << 15
"""Target size of a sub-block in lanes. It is large enough to hide the cost of a message, and small enough for
compression, transfer and summation to overlap, and for the codec not to start a second thread.
"""

_GRID = 16
"""Even blocks begin at multiples of 16 lanes, a cache line."""


class Cut(Protocol):
    """The division of a vector into one block per member of a ring, and of blocks into sub-blocks."""

    @cached_property
    def subs(self) -> int:
        """Number of sub-blocks of every block."""

    def sub(self, block: int, sub: int) -> slice:
        """Return the lanes of a sub-block, which may be empty."""


class Blocks(ABC):
    """Consecutive blocks of a vector, each cut into the same number of sub-blocks.

    The last sub-blocks of a block may be short or empty. ``target`` is the approximate size of a sub-block in
    lanes.
    """

    target: int

    @property
    @abstractmethod
    def block_lanes(self) -> int:
        """Number of lanes of the longest block."""

    @abstractmethod
    def block(self, block: int) -> slice:
        """Return the lanes of a block."""

    @cached_property
    def subs(self) -> int:
        """Number of sub-blocks of every block."""
        return max(1, round(self.block_lanes / self.target))

    @cached_property
    def sub_lanes(self) -> int:
        """Number of lanes of a full sub-block.

        If there are several, it is a multiple of a stream's blocks.
        """
        lanes = -(-self.block_lanes // self.subs)
        return lanes if self.subs == 1 else -(-lanes // STREAM_LANES) * STREAM_LANES

    def sub(self, block: int, sub: int) -> slice:
        """Return the lanes of a sub-block."""
        whole = self.block(block)
        start = min(whole.stop, whole.start + sub * self.sub_lanes)
        return slice(start, min(whole.stop, start + self.sub_lanes))


@dataclass(frozen=True)
class Parts(Blocks):
    """``count`` lanes in ``blocks`` even blocks. The last ones may be short or empty."""

    count: int
    blocks: int
    target: int = SUB_BLOCK

    @cached_property
    def block_lanes(self) -> int:
        """Number of lanes of a full block."""
        return -(-self.count // (self.blocks * _GRID)) * _GRID

    def block(self, block: int) -> slice:
        """Return the lanes of a block."""
        return slice(
            min(self.count, block * self.block_lanes), min(self.count, (block + 1) * self.block_lanes)
        )


class RankBlocks(Blocks):
    """One block per rank, of ``counts[rank]`` lanes, in the order of the ranks."""

    def __init__(self, counts: Sequence[int], target: int = SUB_BLOCK) -> None:
        self.target = target
        self._starts = [0, *accumulate(counts)]
        self._longest = max(counts)

    @property
    def block_lanes(self) -> int:
        return self._longest

    def block(self, block: int) -> slice:
        return slice(self._starts[block], self._starts[block + 1])


@dataclass(frozen=True)
class Shares:
    """A `Cut` for a ring in which member *m* owns the blocks ``of[m]``."""

    blocks: Blocks
    of: Sequence[Sequence[int]]

    @cached_property
    def subs(self) -> int:
        """Number of sub-blocks of the longest share, and so of every share."""
        return self.blocks.subs * max(map(len, self.of))

    def sub(self, block: int, sub: int) -> slice:
        """Return the lanes of a sub-block, which is empty after the last block of a shorter share."""
        ahead, within = divmod(sub, self.blocks.subs)
        share = self.of[block - 1]  # of the member that owns the block after the reduce-scatter
        return self.blocks.sub(share[ahead], within) if ahead < len(share) else slice(0, 0)


def owned_block(position: int, ranks: int) -> int:
    """Return the block of a ring that a member owns after the reduce-scatter."""
    return (position + 1) % ranks
