# SPDX-License-Identifier: BSD-2-Clause
"""Small sums: every rank sends its values to all others, and each adds all of them. One step, no ring."""

import math
from time import perf_counter
from typing import TypeGuard

import numpy as np
from numpy.typing import NDArray

from ...wire import STREAM_LANES
from ..values.wire_form import Compressed, WireForm
from .ring import Source

Lanes = NDArray[np.float32]

MOST_SENT = 1 << 15
"""Lanes that a rank may always send in one step, counted over all receivers. A ring sends less, but in
2 (n - 1) steps, and a step costs more time than these lanes take at 1 Gbit/s. With twice as many, 16,384
values of four hosts took 1.6 ms in place of 2.4 at 1 Gbit/s, but 3.5 in place of 2.3 at 100 Mbit/s."""
FAR = 1e-3
"""Seconds of latency from which it may be more."""
MOST_FAR = 1 << 21
"""Most lanes that it is then, since a rank takes them in from all others at a time."""
FAR_RATE = 12.5e6
"""Bytes per second that a link far away is taken to carry: 100 Mbit/s."""


def fits(form: WireForm, count: int, bound: float | None) -> TypeGuard[Compressed]:
    """Tell whether sums of ``count`` lanes are made in one step. All ranks find the same.

    ``bound``: of a codec whose scale follows the values, so that sums are exact and the way never shows; else
    None.
    """
    return isinstance(form, Compressed) and one_step_is_faster(
        count, form.transport.size, form.transport.latency, bound
    )


def one_step_is_faster(count: float, ranks: int, latency: float, bound: float | None) -> bool:
    """Tell whether one step is taken to be faster than a ring, for ``count`` lanes of each rank.

    ``latency``: seconds one way. Far away, what is sent may take as long as the latency of the ring's other
    2 n - 3 steps. Half a bit of each lane is counted for each halving of the ``bound``.
    """
    sent = count * (ranks - 1)
    if sent <= MOST_SENT or sent > MOST_FAR or bound is None or latency < FAR:
        return sent <= MOST_SENT
    return sent * max(1.0, -math.log2(bound)) / 16 <= (2 * ranks - 3) * latency * FAR_RATE


def one_step(form: Compressed, source: Source, lanes: Lanes, sub_block: int) -> None:
    """Sum ``source`` of all ranks into ``lanes``, which may be the same array, at every rank.

    Each adds the same streams, of about ``sub_block`` lanes, in the order of the ranks, its own too. So all
    get the same bits, and where sums are exact those of a ring.
    """
    own, ranks = form.transport.rank, range(form.transport.size)
    others = [rank for rank in ranks if rank != own]
    step = -(-sub_block // STREAM_LANES) * STREAM_LANES
    pieces = [slice(at, at + step) for at in range(0, max(1, lanes.size), step)]
    arriving = [
        {rank: form.receive(rank, lanes[piece], lanes[piece] if rank else None) for rank in others}
        for piece in pieces
    ]
    # All of them before the first is sent, since a buffer whose bytes are sent is used again.
    buffers = [form.compressed(source[piece]) for piece in pieces]
    for piece, (buffer, length) in zip(pieces, buffers, strict=True):
        form.forward(others, buffer, length, lanes[piece])
    for piece, incoming, (buffer, length) in zip(pieces, arriving, buffers, strict=True):
        part, stream = lanes[piece], buffer[:length]
        for rank in ranks:
            if rank != own:
                incoming[rank].finish()
                incoming[rank].drop()
                continue
            start = perf_counter()
            if rank:
                form.add(stream, part, part)
            else:
                form.restore(stream, part)
            form.spent.codec += perf_counter() - start
        form.settle(part)
    form.drain()
