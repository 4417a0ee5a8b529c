# SPDX-License-Identifier: BSD-2-Clause
"""Transfers from and to one rank: a chain that forwards an array, and the gathering of blocks at a root."""

from collections import deque
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..values.wire_form import Incoming, Then, WireForm
from .parts import Cut, owned_block
from .ring import POSTED

Lanes = NDArray[np.float32]


def chain(form: WireForm, members: Sequence[int], lanes: Lanes, cut: Cut) -> None:
    """Forward the first member's lanes from each member to the next. All get the same bits.

    ``cut`` has one block. Sub-blocks are pipelined and relayed unchanged, so each port carries every value
    once for any number of ranks.
    """
    position = members.index(form.transport.rank)
    following = members[position + 1 : position + 2]
    then = Then.SETTLED if following else Then.KEPT
    posted: deque[Incoming] = deque()
    for sub in range(cut.subs if len(members) > 1 else 0):
        if position == 0:
            form.send(following, lanes[cut.sub(0, sub)], settle=True)
            continue
        while len(posted) < POSTED and sub + len(posted) < cut.subs:
            into = lanes[cut.sub(0, sub + len(posted))]
            posted.append(form.receive(members[position - 1], into, then=then))
        incoming = posted.popleft()
        incoming.finish()
        if following:
            incoming.relay(following)
        else:
            incoming.drop()
    form.drain()


def gather_to(form: WireForm, root: int, lanes: Lanes, cut: Cut) -> None:
    """Gather at ``root`` the block of every rank, after a ring's reduce-scatter."""
    rank, ranks = form.transport.rank, form.transport.size
    if rank != root:
        for sub in range(cut.subs):
            form.send([root], lanes[cut.sub(owned_block(rank, ranks), sub)])
        form.drain()
        return
    # The peers take turns, so that all ranks send at the same time.
    order = [(sub, peer) for sub in range(cut.subs) for peer in range(ranks) if peer != root]
    posted: deque[Incoming] = deque()
    for sub, peer in order:
        if len(posted) >= POSTED * (ranks - 1):
            _store(posted.popleft())
        posted.append(form.receive(peer, lanes[cut.sub(owned_block(peer, ranks), sub)]))
    while posted:
        _store(posted.popleft())


def _store(incoming: Incoming) -> None:
    incoming.finish()
    incoming.drop()
