# SPDX-License-Identifier: BSD-2-Clause
"""Ranks as threads of one process, for training runs in which the network plays no role."""

import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

from ....transport import LoopbackTransport, TransportError, loopback

T = TypeVar("T")


def on_ranks(ranks: int, work: Callable[[LoopbackTransport], T], **settings: Any) -> list[T]:
    """Run ``work`` at every rank, each in a thread, and return the results; ``settings`` as of `loopback`.

    An error at a rank ends all of them. Raises the first one, a rank's own first.
    """

    def once(transport: LoopbackTransport) -> T:
        with transport:
            return work(transport)

    return at_each(loopback(ranks, **settings), once)


def at_each(transports: Sequence[LoopbackTransport], work: Callable[[LoopbackTransport], T]) -> list[T]:
    """Run ``work`` with every transport, as `on_ranks` does. The transports stay open, but for an error."""
    found: list[T | BaseException | None] = [None] * len(transports)

    def run(transport: LoopbackTransport) -> None:
        try:
            found[transport.rank] = work(transport)
        except BaseException as error:
            found[transport.rank] = error
            transport.close()

    threads = [threading.Thread(target=run, args=(transport,), daemon=True) for transport in transports]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    errors = [result for result in found if isinstance(result, BaseException)]
    if errors:
        # The others only say that a rank is lost or silent.
        raise min(errors, key=lambda error: isinstance(error, TransportError))
    return cast("list[T]", found)
