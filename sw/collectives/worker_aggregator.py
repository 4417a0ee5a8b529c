# SPDX-License-Identifier: BSD-2-Clause
"""The baseline of the paper (Fig. 2): workers send gradients to one aggregator, which sends the sum back.

The aggregator is a rank like the others and contributes a gradient of its own. Sub-blocks are pipelined: the
sum of one goes down while the next ones come up.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .parts import Parts
from .ring import LEAD, POSTED, Finish
from .wire_form import Incoming, WireForm


def worker_aggregator(
    up: WireForm,
    down: WireForm,
    members: Sequence[int],
    source: NDArray[np.float32],
    lanes: NDArray[np.float32],
    parts: Parts,
    finish: Finish,
) -> None:
    """All-reduce among ``members``, the first of which aggregates, from ``source`` to ``lanes``.

    ``up``, ``down``: how lanes travel to and from the aggregator. ``finish`` is called at the aggregator for
    each sub-block whose sum is complete. ``parts`` has one block.
    """
    if len(members) == 1:
        if lanes is not source:
            np.copyto(lanes, source)
        finish(lanes)
    elif up.transport.rank == members[0]:
        _aggregate(up, down, members[1:], source, lanes, parts, finish)
    else:
        _work(up, down, members[0], source, lanes, parts)
    up.drain()
    down.drain()


def _aggregate(
    up: WireForm,
    down: WireForm,
    workers: Sequence[int],
    source: NDArray[np.float32],
    lanes: NDArray[np.float32],
    parts: Parts,
    finish: Finish,
) -> None:
    posted: deque[list[Incoming]] = deque()
    for sub in range(parts.subs):
        while len(posted) < POSTED and sub + len(posted) < parts.subs:
            where = parts.sub(0, sub + len(posted))
            ahead = lanes[where]
            first = up.receive(workers[0], ahead, source[where])
            posted.append([first, *(up.receive(worker, ahead, ahead) for worker in workers[1:])])
        for incoming in posted.popleft():
            incoming.finish()
            incoming.drop()
        total = lanes[parts.sub(0, sub)]
        finish(total)
        down.settle(total)
        down.send(workers, total)


def _work(
    up: WireForm,
    down: WireForm,
    aggregator: int,
    source: NDArray[np.float32],
    lanes: NDArray[np.float32],
    parts: Parts,
) -> None:
    posted: deque[Incoming] = deque()
    sent = 0
    for sub in range(parts.subs):
        while len(posted) < POSTED and sub + len(posted) < parts.subs:
            posted.append(down.receive(aggregator, lanes[parts.sub(0, sub + len(posted))]))
        while sent < min(parts.subs, sub + LEAD):
            up.send([aggregator], source[parts.sub(0, sent)])
            sent += 1
        incoming = posted.popleft()
        incoming.finish()
        incoming.drop()
