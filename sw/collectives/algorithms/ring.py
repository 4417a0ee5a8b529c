# SPDX-License-Identifier: BSD-2-Clause
"""The paper's Algorithm 1: a ring of workers, each summing one block at a time; no aggregator.

Step *s* of rank *r* sends block *r - s* to the next rank and receives block *r - s - 1* from the one before
(modulo the ranks *n*). In steps 0..n-2 (P1, reduce-scatter) what arrives is added; after them rank *r* owns
block *r + 1*, complete. In steps n-1..2n-3 (P2, all-gather) it is stored.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ...codec import converted
from ..values.wire_form import Incoming, Then, WireForm
from .parts import Cut

POSTED = 2
"""Receives in flight at a time."""
AHEAD = 1 << 19
"""Bytes of its first block that a rank may have sent beyond what it has received: about what a connection
holds. With more, all ranks compress at first and receive nothing, and links of 1 Gbit/s wait for them."""

Lanes = NDArray[np.float32]


class Source(Protocol):
    """A rank's own values: an array, or an object that makes them on demand.

    The ring asks for each sub-block once, in the order in which it sends or adds them, while the transfers of
    earlier ones are in flight.
    """

    def __getitem__(self, where: slice, /) -> Lanes:
        """Return the lanes of a sub-block."""


class _Arrival(NamedTuple):
    """A sub-block that arrives in a step, and where its values are."""

    step: int
    where: slice
    relayed: bool
    incoming: Incoming


def reduce_scatter_steps(ranks: int) -> range:
    """Return the steps after which every rank owns the sum of one block."""
    return range(ranks - 1)


def all_gather_steps(ranks: int) -> range:
    """Return the steps in which every rank hands its block to all others."""
    return range(ranks - 1, 2 * (ranks - 1))


def all_reduce_steps(ranks: int) -> range:
    """Return the steps of a whole all-reduce."""
    return range(2 * (ranks - 1))


def ring(
    form: WireForm,
    members: Sequence[int],
    source: Source,
    lanes: Lanes,
    parts: Cut,
    steps: range,
    settled: Callable[[slice], None] | None = None,
) -> None:
    """Run steps of the ring among ``members``, of which the transport's rank is one.

    ``source``: this rank's own values, which may be ``lanes``. ``lanes``: gets the result, or only some of
    its blocks if only some of the steps run. ``parts`` has one block per member. If steps follow in which a
    rank's own block is sent, the rank keeps the values that the others get. ``settled`` is called in the
    all-gather for each sub-block of ``lanes`` that is final, once this rank has sent it on if it must.

    A rank sends its first block, but not much ahead of what it receives. Then it sends each sub-block as soon
    as it has arrived, while the processor's cache holds it. So the steps overlap, and with them compression,
    transfer and summation: the kernel moves queued data while this rank computes.
    """
    if len(members) > 1:
        _Ring(form, members, source, lanes, parts, steps, settled).run()
        return
    for where in (parts.sub(0, sub) for sub in range(parts.subs)):
        if lanes is not source:
            values = source[where]
            lanes[where] = values if values.dtype == lanes.dtype else converted(values, patterns=True)
        if settled is not None:
            settled(where)


class _Ring:
    """The sub-blocks that a rank sends and receives in some steps; arguments as for `ring`."""

    def __init__(
        self,
        form: WireForm,
        members: Sequence[int],
        source: Source,
        lanes: Lanes,
        parts: Cut,
        steps: range,
        settled: Callable[[slice], None] | None,
    ):
        self.form, self.source, self.lanes, self.steps, self.settled = form, source, lanes, steps, settled
        self.narrow = lanes.dtype != np.float32  # which hold no partial sums
        self.ranks = ranks = len(members)
        position = members.index(form.transport.rank)
        self.following, self.previous = members[(position + 1) % ranks], members[position - 1]
        blocks = [[parts.sub(block, sub) for sub in range(parts.subs)] for block in range(ranks)]
        # What each step sends, which the step before has received.
        moves = [
            (step, where)
            for step in range(steps.start, steps.stop + 1)
            for where in blocks[(position - step) % ranks]
        ]
        self.first, self.due = moves[: parts.subs], iter(moves[parts.subs :])
        self.posted: deque[_Arrival] = deque()

    def run(self) -> None:
        """Send the first block, then each sub-block that arrives."""
        waiting: list[_Arrival] = []
        ahead = 0
        for sent, (step, where) in enumerate(self.first):
            # With as many messages received as sent, all ranks could wait for each other.
            while ahead >= AHEAD and len(waiting) < sent:
                arrival, size = self.take()
                waiting.append(arrival)
                ahead -= size
                self.post(False)
            ahead += self.form.send([self.following], (self.lanes if step else self.source)[where])
            self.report(step, where)
            self.post(sent + 1 == len(self.first))  # not before: a source may have to compute what is added
        for arrival in waiting:
            self.send_on(arrival)
        while self.posted:
            self.send_on(self.take()[0])
            self.post(True)
        self.form.drain()

    def post(self, at_once: bool) -> None:
        """Keep receives in flight. ``at_once``: relay a sub-block before receiving more."""
        while len(self.posted) < POSTED and (move := next(self.due, None)) is not None:
            step, where = move
            relayed = step in self.steps and (at_once or step >= self.ranks or self.narrow)
            then = Then.KEPT if not relayed else Then.SETTLED if step >= self.ranks - 1 else Then.RELAYED
            addend = self.source[where] if step < self.ranks else None
            incoming = self.form.receive(self.previous, self.lanes[where], addend, then)
            self.posted.append(_Arrival(step, where, relayed, incoming))

    def take(self) -> tuple[_Arrival, int]:
        """Wait for the next sub-block; return it and its bytes."""
        arrival = self.posted.popleft()
        size = arrival.incoming.finish()
        if not arrival.relayed:
            arrival.incoming.drop()
        return arrival, size

    def send_on(self, arrival: _Arrival) -> None:
        """Send a received sub-block to the next rank, unless it has reached its last one."""
        step, where, relayed, incoming = arrival
        if relayed:
            incoming.relay([self.following])
        elif step in self.steps:
            self.form.send([self.following], self.lanes[where], settle=step == self.ranks - 1)
        self.report(step, where)

    def report(self, step: int, where: slice) -> None:
        """Report a sub-block of the all-gather as final."""
        if self.settled is not None and step >= self.ranks - 1:
            self.settled(where)
