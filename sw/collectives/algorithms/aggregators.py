# SPDX-License-Identifier: BSD-2-Clause
"""The paper's baselines: gradients go up to an aggregator, or a tree of them, and the sum comes down.

With `one_aggregator`, the first rank aggregates and contributes its own values. In `paper_tree` (Figs. 1a and
2), aggregators are separate ranks without values. Each has a group of workers or aggregators below it.
Sub-blocks are pipelined: the sum of one goes down while the next ones come up.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..values.wire_form import Incoming, Then, WireForm
from .parts import Cut
from .ring import POSTED

Lanes = NDArray[np.float32]

LEAD = 4
"""Number of sub-blocks that a rank may send up before it has received one down."""


@dataclass(frozen=True)
class Place:
    """A rank's place in a tree. ``contributes`` tells whether it has its own values."""

    parent: int | None
    children: Sequence[int]
    contributes: bool = True


def one_aggregator(members: Sequence[int], rank: int) -> Place:
    """Return the place of one of ``members``. The first aggregates the values of all, including its own."""
    return Place(None, members[1:]) if rank == members[0] else Place(members[0], ())


def tree_levels(ranks: int, group_size: int | None) -> list[int]:
    """Return the number of ranks on each level of the paper's tree, from the top. Workers are the last.

    ``group_size`` is the number of children per aggregator; by default one aggregator has all workers. If the
    ranks do not fill the groups of the largest such tree, the remaining workers make some groups larger by
    one. Raises ``ValueError`` for fewer than 2 ranks, or a group size below 2.
    """
    if ranks < 2:
        raise ValueError(f"an aggregator and its workers are at least 2 ranks, not {ranks}")
    if group_size is None:
        return [1, ranks - 1]
    if group_size < 2:
        raise ValueError(f"group_size of a tree of aggregators must be at least 2, not {group_size!r}")

    def above(workers: int) -> list[int]:
        levels = [-(-workers // group_size)]
        while levels[0] > 1:
            levels.insert(0, -(-levels[0] // group_size))
        return levels

    workers = max(workers for workers in range(1, ranks) if workers + sum(above(workers)) <= ranks)
    levels = above(workers)
    return [*levels, ranks - sum(levels)]


def paper_tree(ranks: int, group_size: int | None, rank: int) -> Place:
    """Return a rank's place in the tree of `tree_levels`, whose ranks are numbered from the top."""
    levels = tree_levels(ranks, group_size)
    level, first = 0, 0
    while rank >= first + levels[level]:
        first += levels[level]
        level += 1
    place, size = rank - first, levels[level]
    parent = None if level == 0 else first - levels[level - 1] + place * levels[level - 1] // size
    if level == len(levels) - 1:
        return Place(parent, ())
    below, start = levels[level + 1], first + size
    children = [start + child for child in range(below) if child * size // below == place]
    return Place(parent, children, contributes=False)


def aggregate(
    up: WireForm, down: WireForm, place: Place, source: Lanes, lanes: Lanes, cut: Cut,
    finish: Callable[[Lanes], None] | None = None,
) -> None:  # fmt: skip
    """All-reduce along a tree, from ``source`` to ``lanes``. Each rank calls it with its own place.

    ``up`` and ``down`` are the forms of lanes to and from the aggregators. ``finish`` is applied at the top
    to each sub-block whose sum is complete, before it goes down. ``cut`` has one block. An aggregator adds
    its children's values in their order, and to its own if it contributes any.
    """
    subs = cut.subs
    below: deque[list[Incoming]] = deque()
    above: deque[Incoming] = deque()
    then = Then.SETTLED if place.children else Then.KEPT
    gone_up = come_down = 0

    def receive_sum(sub: int) -> list[Incoming]:
        """Begin to receive one sub-block of every child, to be summed in ``lanes``."""
        where = cut.sub(0, sub)
        total = lanes[where]
        addends = [source[where] if place.contributes else None, *[total] * len(place.children)]
        return [
            up.receive(child, total, addend) for child, addend in zip(place.children, addends, strict=False)
        ]

    while come_down < subs:
        if gone_up < min(subs, come_down + LEAD):
            while place.children and len(below) < POSTED and gone_up + len(below) < subs:
                below.append(receive_sum(gone_up + len(below)))
            where = cut.sub(0, gone_up)
            for incoming in below.popleft() if place.children else ():
                incoming.finish()
                incoming.drop()
            total = lanes[where] if place.children else source[where]
            gone_up += 1
            if place.parent is None:
                if not place.children and lanes is not source:
                    np.copyto(lanes[where], total)
                if finish is not None:
                    finish(lanes[where])
                if place.children:
                    down.send(place.children, lanes[where], settle=True)
                come_down += 1
            else:
                up.send([place.parent], total)
            continue
        assert place.parent is not None
        while len(above) < POSTED and come_down + len(above) < gone_up:
            into = lanes[cut.sub(0, come_down + len(above))]
            above.append(down.receive(place.parent, into, then=then))
        incoming = above.popleft()
        incoming.finish()
        if place.children:
            incoming.relay(place.children)
        else:
            incoming.drop()
        come_down += 1
    up.drain()
    down.drain()
