# SPDX-License-Identifier: BSD-2-Clause
"""Ranks as threads of one process, for training runs in which the network plays no role."""

import threading
from collections.abc import Callable
from typing import Any, TypeVar, cast

from ....transport import LoopbackTransport, TransportError, loopback

T = TypeVar("T")


def on_ranks(ranks: int, work: Callable[[LoopbackTransport], T], **settings: Any) -> list[T]:
    """Run ``work`` at every rank, each in a thread, and return the results; ``settings`` as of `loopback`.

    An error at a rank ends all of them. Raises the first one, a rank's own first.
    """
    found: list[T | BaseException | None] = [None] * ranks

    def run(transport: LoopbackTransport) -> None:
        try:
            with transport:
                found[transport.rank] = work(transport)
        except BaseException as error:
            found[transport.rank] = error

    threads = [threading.Thread(target=run, args=(one,), daemon=True) for one in loopback(ranks, **settings)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    errors = [result for result in found if isinstance(result, BaseException)]
    if errors:
        # The others only say that a rank is lost or silent.
        raise min(errors, key=lambda error: isinstance(error, TransportError))
    return cast("list[T]", found)
