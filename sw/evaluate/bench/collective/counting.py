# SPDX-License-Identifier: BSD-2-Clause
"""The time that a collective's statistics take, measured apart: in a call it is less than the noise."""

import time
from functools import cache

import numpy as np

from ....collectives import Ledger, Spent

_CALLS, _WINDOWS = 200, 100
"""Calls timed together, and how often. The best window counts, since other work only adds to it."""


def counting_seconds(messages: int) -> float:
    """Measure how long a call of this number of messages spends on counting: an upper limit.

    The result is in seconds. A message is taken to be compressed, received, summed, sent and restored at this
    rank, each with two readings of the clock.
    """
    call, message = _costs()
    return call + messages * message


@cache
def _costs() -> tuple[float, float]:
    """Measure the seconds for a call's own numbers, and for one message of it."""
    ledger, lanes, clock = Ledger(), np.zeros(16, np.float32), time.perf_counter

    def call() -> None:
        start = clock()
        for _ in range(3):  # agreement, error feedback, the whole
            clock()
        spent = Spent()
        ledger.add("all-reduce", "software", 16, 16, 0, 0.5, clock() - start, 0.0, spent)

    spent = Spent()

    def message() -> None:
        for _ in range(3):  # compression, sum, restoration
            start = clock()
            spent.codec += clock() - start
        start = clock()
        spent.waiting += clock() - start
        spent.sent(lanes, 1, clock())

    found = []
    for work in (call, message):
        windows = []
        for _ in range(_WINDOWS):
            start = clock()
            for _ in range(_CALLS):
                work()
            windows.append((clock() - start) / _CALLS)
        found.append(min(windows))
    return found[0], found[1]
