# SPDX-License-Identifier: BSD-2-Clause
"""Small sums: every rank sends its values to all others, and each adds all of them. One step, no ring."""

from time import perf_counter
from typing import TypeGuard
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from ...transport import Transport
from ..agreement import exchanged, is_amount
from ..values.wire_form import Compressed, WireForm
from .ring import Source

Lanes = NDArray[np.float32]

MOST_SENT = 1 << 15
"""Lanes that a rank may always send in one step, counted over all receivers. A ring sends less, but in
2 (n - 1) steps, and a step costs more time than these lanes take at 1 Gbit/s."""
MOST_FAR = 1 << 21
"""Most lanes that it sends so to ranks far away, which take them in from all others at a time."""
FAR_RATE = 50e6
"""Lanes that a link far away takes in a second: a quarter of a byte of each at 100 Mbit/s."""

_latencies: WeakKeyDictionary[Transport, float] = WeakKeyDictionary()


def latency_of(transport: Transport) -> float:
    """Return the longest latency that any rank has seen, the same at all ranks. The first call is collective.

    Raises `MismatchError` for a rank whose answer is no number of seconds.
    """
    found = _latencies.get(transport)
    if found is None:
        found = _latencies[transport] = max(exchanged(transport, transport.latency, is_amount))
    return found


def fits(form: WireForm, count: int) -> TypeGuard[Compressed]:
    """Tell whether sums of ``count`` lanes are made in one step. All ranks find the same, together.

    Far away, the lanes may take as long as the latency of the ring's other 2 n - 3 steps.
    """
    if not isinstance(form, Compressed):
        return False
    ranks = form.transport.size
    sent = count * (ranks - 1)
    if MOST_SENT < sent <= MOST_FAR:
        return sent <= (2 * ranks - 3) * latency_of(form.transport) * FAR_RATE
    return sent <= MOST_SENT


def one_step(form: Compressed, source: Source, lanes: Lanes, sub_block: int) -> None:
    """Sum ``source`` of all ranks into ``lanes``, which may be the same array, at every rank.

    Each adds the same streams, of up to ``sub_block`` lanes, in the order of the ranks, its own too. So all
    get the same bits, and where sums are exact those of a ring.
    """
    own, ranks = form.transport.rank, range(form.transport.size)
    others = [rank for rank in ranks if rank != own]
    pieces = [slice(at, at + sub_block) for at in range(0, max(1, lanes.size), sub_block)]
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
