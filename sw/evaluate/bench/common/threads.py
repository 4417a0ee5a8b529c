# SPDX-License-Identifier: BSD-2-Clause
"""Ranks as threads of one process, for training runs in which the network plays no role."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from ....transport import LoopbackTransport, TransportError, loopback

T = TypeVar("T")


def on_ranks(ranks: int, work: Callable[[LoopbackTransport], T], **settings: Any) -> list[T]:
    """Run ``work`` at every rank, each in a thread, and return the results; ``settings`` as of `loopback`.

    An error at a rank ends all of them. Raises the first one, a rank's own first.
    """

    def run(transport: LoopbackTransport) -> T:
        with transport:
            return work(transport)

    with ThreadPoolExecutor(ranks) as pool:
        found = [pool.submit(run, transport) for transport in loopback(ranks, **settings)]
    errors = [error for each in found if (error := each.exception()) is not None]
    if errors:
        # The others only say that a rank is lost or silent.
        raise min(errors, key=lambda error: isinstance(error, TransportError))
    return [each.result() for each in found]
