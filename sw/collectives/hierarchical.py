# SPDX-License-Identifier: BSD-2-Clause
"""Worker groups (the paper's Fig. 1b and 1c): a ring inside each group, and a level above that joins groups.

A group of *g* workers reduce-scatters, so each worker holds the group's sum of one of *g* blocks. Above, the
workers of all groups that hold the same block all-reduce it among themselves, by a ring (Fig. 1c) or with
the first group's worker as aggregator (Fig. 1b); no single worker has to speak for its group. Then every
group all-gathers. Where *g* does not divide the number of workers, the last group is smaller, and its workers
hold several blocks each.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .parts import Parts
from .ring import (
    Finish,
    all_gather_steps,
    all_reduce_steps,
    owned_block,
    owner_of,
    reduce_scatter_steps,
    ring,
)
from .wire_form import WireForm
from .worker_aggregator import worker_aggregator


def default_group_size(ranks: int) -> int:
    """The largest divisor of the number of ranks that is not above its square root."""
    return max(size for size in range(1, math.isqrt(ranks) + 1) if ranks % size == 0)


@dataclass(frozen=True)
class Shares:
    """Blocks dealt out to the ``ranks`` of a group, which may be fewer: each takes a run of blocks as one.

    A `Cut` for a ring, with one share per rank.
    """

    parts: Parts
    ranks: int

    def run(self, share: int) -> range:
        """The blocks of a share."""
        blocks = self.parts.blocks
        return range(share * blocks // self.ranks, (share + 1) * blocks // self.ranks)

    def share_of(self, block: int) -> int:
        """The share that a block is in."""
        return ((block + 1) * self.ranks - 1) // self.parts.blocks

    @property
    def subs(self) -> int:
        """Sub-blocks of the longest share, and so of every one."""
        return self.parts.subs * -(-self.parts.blocks // self.ranks)

    def sub(self, share: int, sub: int) -> slice:
        """The lanes of a sub-block; none after the last block of a shorter share."""
        ahead, within = divmod(sub, self.parts.subs)
        run = self.run(share)
        return self.parts.sub(run[ahead], within) if ahead < len(run) else slice(0, 0)


def hierarchical(
    form: WireForm,
    up: WireForm,
    down: WireForm,
    group_size: int,
    upper: str,
    source: NDArray[np.float32],
    lanes: NDArray[np.float32],
    target: int,
    finish: Finish,
) -> None:
    """All-reduce among all ranks, in groups of ``group_size`` consecutive ones; the last may be smaller.

    ``upper``: "ring" or "aggregator", which uses ``up`` and ``down``. ``finish`` as in `ring`; it must
    settle.
    """
    rank, ranks = form.transport.rank, form.transport.size
    groups = [range(first, min(first + group_size, ranks)) for first in range(0, ranks, group_size)]
    members = groups[rank // group_size]
    parts = Parts(lanes.size, group_size, target)
    shares = Shares(parts, len(members))

    def not_yet(lanes: NDArray[np.float32]) -> None:
        """A group's sum is not the sum."""

    def owner(group: range, block: int) -> int:
        """The rank that holds its group's sum of a block."""
        return group[owner_of(Shares(parts, len(group)).share_of(block), len(group))]

    ring(form, members, source, lanes, shares, reduce_scatter_steps(len(members)), not_yet)
    # A rank of a smaller group has several blocks, and goes through their rings in the order of the blocks.
    for block in shares.run(owned_block(members.index(rank), len(members))):
        owners = [owner(group, block) for group in groups]
        own = lanes[parts.block(block)]
        if upper == "ring":
            above = Parts(own.size, len(owners), target)
            ring(form, owners, own, own, above, all_reduce_steps(len(owners)), finish)
        else:
            worker_aggregator(up, down, owners, own, own, Parts(own.size, 1, target), finish)
        # A group hands on what its members would see anyway: the codec is idempotent in value.
        form.settle(own)
    ring(form, members, lanes, lanes, shares, all_gather_steps(len(members)), not_yet)
