# SPDX-License-Identifier: BSD-2-Clause
"""The statistics of a node's pushes, pulls and answers, in the ledger of its transport."""

from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Literal

from ....collectives import Spent, ledger_of
from ....transport import Transport
from .legs import Data, Leg


class Call:
    """One call, from here to `end`. Bytes are those of the data; headers are in the traffic's "control".

    Attributes: ``values``, ``sent`` (bytes) and ``spent``, to be added to.
    """

    def __init__(self, transport: Transport, name: str, leg: Leg, values: int = 0) -> None:
        self.name, self.path, self.values, self.sent, self.spent = name, leg.path, values, 0, Spent()
        self._transport, self._start = transport, perf_counter()

    @contextmanager
    def coding(self) -> Iterator[None]:
        """Count the time in this context as the codec's."""
        start = perf_counter()
        yield
        self.spent.codec += perf_counter() - start

    def data(self, data: Data, raw: int) -> None:
        """Count a message of ``data``, which has ``raw`` bytes as fp32."""
        self.sent += data.nbytes
        self.spent.raw_bytes += raw
        self.spent.messages += 1

    def end(self, rest: Literal["sending", "waiting"] | None = None, coding: float = 0.0) -> None:
        """Add the call to the ledger. ``rest`` says what the time was that is not the codec's.

        ``coding`` are seconds of the codec before the call began.
        """
        self.spent.codec += coding
        seconds = perf_counter() - self._start + coding
        if rest is not None:
            setattr(self.spent, rest, max(0.0, seconds - self.spent.codec))
        ledger_of(self._transport).add(
            self.name, self.path, self.values, self.sent, None, None, seconds, 0.0, self.spent
        )
