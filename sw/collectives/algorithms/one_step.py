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
"""Most lanes that a rank sends in one step, counted over all receivers. A ring sends less, but in 2 (n - 1)
steps, and a step costs more time than these lanes take at 1 Gbit/s."""


def fits(form: WireForm, count: int, sub_block: int) -> TypeGuard[Compressed]:
    """Tell whether sums of ``count`` lanes are made in one step. All ranks find the same."""
    small = count <= sub_block and count * (form.transport.size - 1) <= MOST_SENT
    return small and isinstance(form, Compressed)


def one_step(form: Compressed, source: Source, lanes: Lanes) -> None:
    """Sum ``source`` of all ranks into ``lanes``, which may be the same array, at every rank.

    Each adds the same streams in the order of the ranks, its own too. So all get the same bits, and where
    sums are exact those of a ring.
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
