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
        """Its slot of the table."""
        return wire.flow_index(*self)


class FlowTable:
    """Direct-mapped table of 1024 flows, each with the sequence number modulo 4 of its float grid.

    Empty after reset. A flow is found by its whole key; one that hashes to a taken slot displaces
    the older flow.
    """

    def __init__(self) -> None:
        self._entries: list[tuple[Flow, int] | None] = [None] * wire.FLOW_TABLE_SIZE

    def phase(self, flow: Flow) -> int | None:
        """Return the flow's phase, 0..3, or ``None`` if the table does not hold it."""
        entry = self._entries[flow.slot]
        return entry[1] if entry and entry[0] == flow else None

    def learn(self, flow: Flow, sequence: int) -> None:
        """Enter the flow with phase ``sequence`` modulo 4, in place of whatever its slot held."""
        self._entries[flow.slot] = (flow, sequence & 3)

    def __len__(self) -> int:
        return sum(entry is not None for entry in self._entries)
