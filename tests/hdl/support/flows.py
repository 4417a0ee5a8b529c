# SPDX-License-Identifier: BSD-2-Clause
"""Flows for the benches of the flow table and of what depends on it."""

import random
from typing import Any

from inceptionn.sim.golden import Flow
from inceptionn.sim.golden.packets import tcp


def random_flow() -> Flow:
    return Flow(
        random.getrandbits(32), random.getrandbits(32), random.getrandbits(16), random.getrandbits(16)
    )


def twins(flow: Flow) -> list[Flow]:
    """Flows of the same set that differ from ``flow`` in two bits.

    Both are in the lower half of the key, or both in the upper, or one in each, or both in one field, where
    they meet in the second fold of :func:`inceptionn.wire.frames.flow_index` alone.
    """
    found = []
    for source, destination, source_port, destination_port in (
        (1 << 5 << (bit := random.randrange(11)), 1 << bit, 0, 0),
        (0, 0, 1 << 9 << (bit := random.randrange(7)), 1 << bit),
        (1 << (bit := random.randrange(16)), 0, 1 << bit, 0),
        ((1 | 1 << 7) << random.randrange(2, 7), 0, 0, 0),
    ):
        twin = Flow(
            flow.source ^ source,
            flow.destination ^ destination,
            flow.source_port ^ source_port,
            flow.destination_port ^ destination_port,
        )
        assert twin.slot == flow.slot
        found.append(twin)
    return found


def segment(flow: Flow, **changes: Any) -> bytes:
    """Return a TCP segment of ``flow``: 64 bytes of zeros at phase 0, unless said otherwise."""
    return tcp(**{"payload": bytes(64), "sequence": 4 * random.getrandbits(20)} | flow._asdict() | changes)
