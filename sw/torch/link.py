# SPDX-License-Identifier: BSD-2-Clause
"""A process group's connections, and the thread that owns them. Calls run one after the other."""

import queue
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future as Result
from typing import Any, TypeVar
from weakref import WeakKeyDictionary, finalize

import torch.distributed as dist

from ..transport import Transport, TransportError
from .transport import TorchTransport, group_of

T = TypeVar("T")

_GRACE = 1.0
"""Seconds that the end of a program waits for calls in flight."""


class Link:
    """Runs calls on a transport in order. All ranks submit the same calls in the same order.

    A thread runs them. A caller that waits for a call runs it itself where the thread has not begun, since
    handing a small call over takes as long as the call. The transport forms in the caller's thread, so all
    ranks must make their links at the same place of the program.
    """

    def __init__(self, transport: Transport) -> None:
        self.transport = transport
        self._calls: deque[tuple[Result[Any], Callable[[], Any]]] = deque()
        self._running = threading.Lock()
        """Held by the thread that runs calls."""
        self._more: queue.SimpleQueue[bool] = queue.SimpleQueue()
        """True after each call that was queued, False at the end."""
        self._thread = threading.Thread(target=self._run, name="inceptionn", daemon=True)
        self._thread.start()

    def submit(self, call: Callable[[], T]) -> Result[T]:
        """Queue a call that uses the transport, and return a future with its result or exception.

        Raises `TransportError` if closed.
        """
        if not self._thread.is_alive():
            raise TransportError("the connections of the process group are closed")
        result: Result[T] = Result()
        self._calls.append((result, call))
        self._more.put(True)
        return result

    def call(self, call: Callable[[], T]) -> T:
        """Run a call after those that are queued, and return its result or raise its exception."""
        result = self.submit(call)
        self.run_until(result)
        return result.result()

    def run_until(self, result: Result[Any]) -> None:
        """Run queued calls here until this one is done, unless the link's thread is running calls now."""
        if not result.done() and self._running.acquire(blocking=False):
            try:
                self._work(result.done)
            finally:
                self._running.release()

    def _work(self, enough: Callable[[], bool]) -> None:
        while self._calls and not enough():
            result, call = self._calls.popleft()
            try:
                value = call()
            except BaseException as error:
                result.set_exception(error)
            else:
                result.set_result(value)

    def _run(self) -> None:
        while self._more.get():
            with self._running:
                self._work(lambda: False)
        self.transport.close()

    def close(self, timeout: float | None = None) -> None:
        """Run the queued calls, then close the transport. Wait at most ``timeout`` seconds for this."""
        self._more.put(False)
        self._thread.join(timeout)


_links: WeakKeyDictionary[Any, Link] = WeakKeyDictionary()


def link_of(group: dist.ProcessGroup | None) -> Link:
    """Return the link of a process group.

    The first call makes it, and all ranks of the group must make that call.
    """
    members = group_of(group)
    link = _links.get(members)
    if link is None:
        link = _links[members] = Link(TorchTransport(members))
        finalize(members, link.close, _GRACE)  # at the program's end, too
    return link
