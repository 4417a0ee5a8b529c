# SPDX-License-Identifier: BSD-2-Clause
"""Where values begin in a capture's segments, as its senders know it and not as an engine cuts them."""

from inceptionn.wire import PROTOCOL_TCP

from ..golden import Flow
from ..golden.parse import Headers, parse


class Grids:
    """The TCP flows of a capture. A flow's values begin with the byte after its SYN (wire-format.md, 8)."""

    def __init__(self) -> None:
        self._begin: dict[Flow, int] = {}
        self.by_syn: set[Flow] = set()
        """Flows that :meth:`first_value` was asked for, whose SYN the capture has."""
        self.by_segment: set[Flow] = set()
        """The same without a SYN: they are taken to begin with the first segment that was asked for."""
        self.without: set[Flow] = set()
        """Flows that :meth:`unknown` was told, without a SYN in the capture."""

    def read(self, frame: bytes) -> Headers | None:
        """Read the headers of the capture's next frame; None if it is not TCP."""
        _, headers = parse(frame, (0,), 0, whole=True)
        if headers is None or headers.protocol != PROTOCOL_TCP:
            return None
        if headers.syn:
            self._begin[headers.flow] = headers.sequence + 1
        return headers

    def first_value(self, headers: Headers, size: int) -> int:
        """Return at which byte of a segment's payload the first value of ``size`` bytes begins."""
        known = headers.flow in self._begin and headers.flow not in self.by_segment
        (self.by_syn if known else self.by_segment).add(headers.flow)
        return (self._begin.setdefault(headers.flow, headers.sequence) - headers.sequence) % size

    def unknown(self, headers: Headers) -> None:
        """Take note of a flow that the engine did not know."""
        if headers.flow not in self._begin:
            self.without.add(headers.flow)
