# SPDX-License-Identifier: BSD-2-Clause
"""Ranks as threads of one process, for training runs in which the network plays no role."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from ....transport import TransportError


def in_threads(calls: list[Callable[[], float]]) -> list[float]:
    """Call each in a thread of its own and return the results; raise the first error, a rank's own first."""
    found: list[Any] = [None] * len(calls)

    def run(place: int) -> None:
        try:
            found[place] = calls[place]()
        except BaseException as error:
            found[place] = error

    threads = [threading.Thread(target=run, args=(place,), daemon=True) for place in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    errors = [result for result in found if isinstance(result, BaseException)]
    if errors:
        # The others only say that a rank is lost or silent.
        raise min(errors, key=lambda error: isinstance(error, TransportError))
    return found
