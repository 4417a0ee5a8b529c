# SPDX-License-Identifier: BSD-2-Clause
"""Small sums: every rank sends its values to all others, and each adds all of them. One step, no ring."""

from time import perf_counter
from typing import TypeGuard

import numpy as np
from numpy.typing import NDArray

from ..values.wire_form import Compressed, WireForm
from .ring import Source

Lanes = NDArray[np.float32]

MOST_SENT = 1 << 15
"""Most lanes that a rank sends so, to all others together. A ring sends less, but in 2 (n - 1) steps, and a
step costs more time than these lanes take at 1 Gbit/s."""


def fits(form: WireForm, lanes: Lanes, sub_block: int) -> TypeGuard[Compressed]:
    """Tell whether exact sums of ``lanes`` are made directly, with the bits that a ring would give.

    All ranks find the same. 16-bit lanes, which hold no partial sums, are for the ring.
    """
    small = lanes.size <= sub_block and lanes.size * (form.transport.size - 1) <= MOST_SENT
    return small and lanes.dtype == np.float32 and isinstance(form, Compressed)


def direct(form: Compressed, source: Source, lanes: Lanes) -> None:
    """Sum ``source`` of all ranks into ``lanes``, which may be the same array, at every rank.

    Each adds the same streams in the order of the ranks, its own too. So all get the same bits even where
    sums leave the range in which they are exact.
    """
    own, ranks = form.transport.rank, range(form.transport.size)
    others = [rank for rank in ranks if rank != own]
    arriving = {rank: form.receive(rank, lanes, lanes if rank else None) for rank in others}
    values = source[:]
    buffer, length = form.compressed(values)
    form.forward(others, buffer, length, values)
    for rank in ranks:
        if rank != own:
            arriving[rank].finish()
            arriving[rank].drop()
            continue
        start = perf_counter()
        if rank:
            form.add(buffer[:length], lanes, lanes)
        else:
            form.restore(buffer[:length], lanes)
        form.spent.codec += perf_counter() - start
    form.settle(lanes)
    form.drain()
