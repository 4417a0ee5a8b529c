# SPDX-License-Identifier: BSD-2-Clause
"""The paper's Algorithm 1: a ring of workers, each summing one block at a time; no aggregator.

Step *s* of rank *r* sends block *r - s* to the next rank and receives block *r - s - 1* from the one before
(modulo the ranks *n*). In steps 0..n-2 (P1, reduce-scatter) what arrives is added; after them rank *r* owns
block *r + 1*, complete. In steps n-1..2n-3 (P2, all-gather) it is stored.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ..values.wire_form import Incoming, WireForm
from .parts import Cut

LEAD = 4
"""Sub-blocks that a rank sends ahead of those that it has received."""
POSTED = 2
"""Receives in flight at a time."""

Finish = Callable[[NDArray[np.float32]], None]


class Source(Protocol):
    """A rank's own values: an array, or what makes them when they are asked for.

    The ring asks for each sub-block once, in the order in which it sends or adds them, while the transfers of
    earlier ones are in flight.
    """

    def __getitem__(self, where: slice, /) -> NDArray[np.float32]:
        """The lanes of a sub-block."""


def reduce_scatter_steps(ranks: int) -> range:
    """The steps after which every rank owns the sum of one block."""
    return range(ranks - 1)


def all_gather_steps(ranks: int) -> range:
    """The steps in which every rank hands its block to all others."""
    return range(ranks - 1, 2 * (ranks - 1))


def all_reduce_steps(ranks: int) -> range:
    """All steps."""
    return range(2 * (ranks - 1))


def ring(
    form: WireForm,
    members: Sequence[int],
    source: Source,
    lanes: NDArray[np.float32],
    parts: Cut,
    steps: range,
    finish: Finish,
    settled: Callable[[slice], None] | None = None,
) -> None:
    """Runs steps of the ring among ``members`` (the transport's rank is one of them).

    ``source``: this rank's own values, which may be ``lanes``; ``lanes`` gets the result. (If only some of
    the steps run, it gets only some of the blocks.) ``parts`` has one block per member. ``finish`` is called
    for each sub-block of the own block when its sum is complete, before it is sent: it takes the mean, and
    replaces the owner's values by what the others will see. ``settled``: called in the all-gather for each
    sub-block of ``lanes`` that is final, once this rank has sent it on where it must.

    A sub-block is sent on as soon as it has arrived. So the steps overlap, and with them compression,
    transfer and summation: the kernel moves queued data while this rank computes.
    """
    ranks = len(members)
    position = members.index(form.transport.rank)
    following, previous = members[(position + 1) % ranks], members[position - 1]
    subs = parts.subs
    if ranks == 1:
        for where in (parts.sub(0, sub) for sub in range(subs)):
            if lanes is not source:
                lanes[where] = source[where]
            finish(lanes[where])
            if settled is not None:
                settled(where)
        return
    units = len(steps) * subs

    def lanes_of(step: int, sub: int) -> slice:
        """The lanes that a step sends; the step before has received them."""
        return parts.sub((position - step) % ranks, sub)

    posted: deque[Incoming] = deque()
    sent = received = 0
    arrived: deque[Incoming] = deque()
    """Stored, and waiting to be relayed unchanged."""
    while received < units:
        # Send first: a source may have to compute what is added to the first receives.
        while sent and len(posted) < POSTED and received + len(posted) < units:
            step, sub = divmod(received + len(posted), subs)
            step += steps.start
            where = lanes_of(step + 1, sub)
            addend = source[where] if step < ranks - 1 else None
            posted.append(form.receive(previous, lanes[where], addend))
        # After the first step a sub-block can be sent only after it has been received.
        if sent < min(units, received + min(LEAD, subs)):
            step, sub = divmod(sent, subs)
            step += steps.start
            if step > max(steps.start, ranks - 1):
                arrived.popleft().relay([following])
            else:
                form.send([following], (lanes if step else source)[lanes_of(step, sub)])
            if settled is not None and step >= ranks - 1:
                settled(lanes_of(step, sub))
            sent += 1
            continue
        incoming = posted.popleft()
        incoming.finish()
        step, sub = divmod(received, subs)
        step += steps.start
        received += 1
        if step == ranks - 2:
            finish(lanes[lanes_of(step + 1, sub)])
        if step >= ranks - 1 and step + 1 in steps:
            arrived.append(incoming)
        else:
            incoming.drop()
            if settled is not None and step >= ranks - 1:
                settled(lanes_of(step + 1, sub))
    form.drain()
