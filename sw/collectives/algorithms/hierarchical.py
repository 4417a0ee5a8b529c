# SPDX-License-Identifier: BSD-2-Clause
"""Worker groups (the paper's Fig. 1b and 1c): a ring in each group, and an upper level that joins groups.

A group of *g* workers reduce-scatters, so each worker holds the group's sum of one of *g* columns of the
vector. On the upper level, the workers of all groups that hold the same column sum it among themselves, by a
ring (Fig. 1c) or with the first group's worker as aggregator (Fig. 1b). No single worker represents its
group. Then every group all-gathers. If *g* does not divide the number of workers, the last group is smaller,
and its workers hold several columns each. Worker *p* of *m* holds columns *p*, *p + m*, ...
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..values.wire_form import WireForm
from .aggregators import aggregate, one_aggregator
from .parts import Blocks, Parts, Shares
from .ring import all_gather_steps, all_reduce_steps, reduce_scatter_steps, ring

Lanes = NDArray[np.float32]


def default_group_size(ranks: int) -> int:
    """Return the largest divisor of the number of ranks up to its square root."""
    return max(size for size in range(1, math.isqrt(ranks) + 1) if ranks % size == 0)


@dataclass(frozen=True)
class Groups:
    """Groups of ``group_size`` consecutive ranks of ``0..ranks - 1``, as ``rank`` sees them."""

    rank: int
    ranks: int
    group_size: int

    @property
    def all(self) -> list[range]:
        """The ranks of every group. The last group may be smaller."""
        size = self.group_size
        return [range(first, min(first + size, self.ranks)) for first in range(0, self.ranks, size)]

    @property
    def members(self) -> range:
        """The ranks of this rank's group."""
        return self.all[self.rank // self.group_size]

    def columns_of(self, place: int) -> range:
        """Return the columns that a member of this rank's group holds, by its place."""
        return range(place, self.group_size, len(self.members))

    @property
    def columns(self) -> range:
        """The columns that this rank holds."""
        return self.columns_of(self.members.index(self.rank))

    def owners(self, column: int) -> list[int]:
        """Return, for each group, the rank that holds a column."""
        return [group[column % len(group)] for group in self.all]

    def by_column(self) -> list[list[int]]:
        """Return each group member's columns, as blocks of `Parts` with one block per column."""
        return [list(self.columns_of(place)) for place in range(len(self.members))]

    def by_rank(self) -> list[list[int]]:
        """Return, per member of this rank's group, the ranks in its columns, whose blocks pass through it."""
        size = self.group_size
        return [
            [rank for column in columns for rank in range(column, self.ranks, size)]
            for columns in self.by_column()
        ]

    def ranks_of(self, column: int) -> list[list[int]]:
        """Return, for each group, its rank in a column, or none if a smaller group ends before it."""
        of_groups = [group[column : column + 1] for group in self.all]
        return [list(found) for found in of_groups]


def hierarchical_all_reduce(
    form: WireForm,
    up: WireForm,
    down: WireForm,
    group_size: int,
    upper: str,
    source: Lanes,
    lanes: Lanes,
    target: int,
) -> None:
    """All-reduce in groups of ``group_size`` consecutive ranks. The last group may be smaller.

    ``upper`` is "ring", or "aggregator", which uses ``up`` and ``down``.
    """
    groups = Groups(form.transport.rank, form.transport.size, group_size)
    members, parts = groups.members, Parts(lanes.size, group_size, target)
    shares = Shares(parts, groups.by_column())
    ring(form, members, source, lanes, shares, reduce_scatter_steps(len(members)))
    # A rank of a smaller group has several columns, and handles them in order.
    for column in groups.columns:
        owners, summed = groups.owners(column), lanes[parts.block(column)]
        if upper == "ring":
            above = Parts(summed.size, len(owners), target)
            ring(form, owners, summed, summed, above, all_reduce_steps(len(owners)))
        else:
            place = one_aggregator(owners, groups.rank)
            aggregate(up, down, place, summed, summed, Parts(summed.size, 1, target))
        # The group's members get these values anyway, since the codec is idempotent in value.
        form.settle(summed)
    ring(form, members, lanes, lanes, shares, all_gather_steps(len(members)))


def hierarchical_reduce_scatter(
    form: WireForm, group_size: int, source: Lanes, lanes: Lanes, blocks: Blocks
) -> None:
    """Compute, at every rank, the sum of its block (one of ``blocks`` per rank) in ``lanes``.

    The other blocks of ``lanes`` are working memory.
    """
    groups = Groups(form.transport.rank, form.transport.size, group_size)
    members, shares = groups.members, Shares(blocks, groups.by_rank())
    ring(form, members, source, lanes, shares, reduce_scatter_steps(len(members)))
    for column in groups.columns:
        owners, above = groups.owners(column), Shares(blocks, groups.ranks_of(column))
        ring(form, owners, lanes, lanes, above, reduce_scatter_steps(len(owners)))


def hierarchical_all_gather(form: WireForm, group_size: int, lanes: Lanes, blocks: Blocks) -> None:
    """Send every rank's final block (one of ``blocks`` per rank) to all others."""
    groups = Groups(form.transport.rank, form.transport.size, group_size)
    members, shares = groups.members, Shares(blocks, groups.by_rank())
    for column in groups.columns:
        owners, above = groups.owners(column), Shares(blocks, groups.ranks_of(column))
        ring(form, owners, lanes, lanes, above, all_gather_steps(len(owners)))
    ring(form, members, lanes, lanes, shares, all_gather_steps(len(members)))
