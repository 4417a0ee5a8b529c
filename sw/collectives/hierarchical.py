# SPDX-License-Identifier: BSD-2-Clause
"""Worker groups (the paper's Fig. 1b and 1c): a ring inside each group, and a level above that joins groups.

A group of *g* workers reduce-scatters, so each worker holds the group's sum of one of *g* blocks. Above, the
workers of all groups that hold the same block all-reduce it among themselves, by a ring (Fig. 1c) or with
the first group's worker as aggregator (Fig. 1b); no single worker has to speak for its group. Then every
group all-gathers.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from inceptionn.collectives.parts import Parts
from inceptionn.collectives.ring import (
    Finish,
    all_gather_steps,
    all_reduce_steps,
    owned_block,
    reduce_scatter_steps,
    ring,
)
from inceptionn.collectives.wire_form import WireForm
from inceptionn.collectives.worker_aggregator import worker_aggregator


def default_group_size(ranks: int) -> int:
    """The largest divisor of the number of ranks that is not above its square root."""
    return max(size for size in range(1, math.isqrt(ranks) + 1) if ranks % size == 0)


def hierarchical(
    form: WireForm,
    up: WireForm,
    down: WireForm,
    group_size: int,
    upper: str,
    source: NDArray[np.float32],
    lanes: NDArray[np.float32],
    target: int,
    finish: Finish,
) -> None:
    """All-reduce among all ranks, in groups of ``group_size`` consecutive ones (a divisor).

    ``upper``: "ring" or "aggregator", which uses ``up`` and ``down``. ``finish`` as in `ring`; it must
    settle.
    """
    transport = form.transport
    group, index = divmod(transport.rank, group_size)
    members = range(group * group_size, (group + 1) * group_size)
    alike = range(index, transport.size, group_size)
    parts = Parts(lanes.size, group_size, target)

    def not_yet(lanes: NDArray[np.float32]) -> None:
        """A group's sum is not the sum."""

    ring(form, members, source, lanes, parts, reduce_scatter_steps(group_size), not_yet)
    own = lanes[parts.block(owned_block(index, group_size))]
    if upper == "ring":
        above = Parts(own.size, len(alike), target)
        ring(form, alike, own, own, above, all_reduce_steps(len(alike)), finish)
    else:
        worker_aggregator(up, down, alike, own, own, Parts(own.size, 1, target), finish)
    # A group hands on what its members would see anyway: the codec is idempotent in value.
    form.settle(own)
    ring(form, members, lanes, lanes, parts, all_gather_steps(group_size), not_yet)
