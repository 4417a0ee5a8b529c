# SPDX-License-Identifier: BSD-2-Clause
"""The transmit engine's flow-phase table (wire-format.md section 7)."""

from typing import NamedTuple

from inceptionn import wire


class Flow(NamedTuple):
    """The 96-bit key of a TCP flow: addresses as 32-bit integers, and ports."""

    source: int
    destination: int
    source_port: int
    destination_port: int

    @property
    def slot(self) -> int:
        """The set of the table whose ways may hold it."""
        return wire.flow_index(*self)


_Set = list[tuple[Flow, int] | None]


class FlowTable:
    """Table of 1024 flows in 512 sets of two ways, each with the sequence number modulo 4 of its grid.

    Empty after reset. A flow is found by its whole key. One that is new to its set takes a free way, the
    first before the second, or displaces the flow that was not stored last.
    """

    def __init__(self) -> None:
        sets = wire.FLOW_TABLE_SIZE // wire.FLOW_TABLE_WAYS
        self._ways: list[_Set] = [[None] * wire.FLOW_TABLE_WAYS for _ in range(sets)]
        self._last = [0] * sets

    def _way(self, flow: Flow) -> int | None:
        ways = self._ways[flow.slot]
        return next((way for way, entry in enumerate(ways) if entry and entry[0] == flow), None)

    def phase(self, flow: Flow) -> int | None:
        """Return the flow's phase, 0..3, or ``None`` if the table does not hold it."""
        way = self._way(flow)
        entry = None if way is None else self._ways[flow.slot][way]
        return entry[1] if entry else None

    def store(self, flow: Flow, sequence: int) -> None:
        """Hold the flow with phase ``sequence`` modulo 4."""
        ways, way = self._ways[flow.slot], self._way(flow)
        if way is None:
            way = ways.index(None) if None in ways else 1 - self._last[flow.slot]
        ways[way] = (flow, sequence & 3)
        self._last[flow.slot] = way

    def free(self, flow: Flow) -> None:
        """Forget the flow, if the table holds it."""
        way = self._way(flow)
        if way is not None:
            self._ways[flow.slot][way] = None

    def __len__(self) -> int:
        return sum(entry is not None for ways in self._ways for entry in ways)
