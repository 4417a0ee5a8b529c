# SPDX-License-Identifier: BSD-2-Clause
"""A push or a pull in flight."""

import threading
from collections.abc import Iterable
from typing import Generic, TypeVar

from ....transport import RunningClock, TransportTimeout

Result = TypeVar("Result")

GRACE = 2.0
"""Seconds that a worker waits longer than its server and its node, since these know which rank to name."""


class Handle(Generic[Result]):
    """The result of `Worker.ipush` and `Worker.ipull`. The rank's `Node` makes and completes it."""

    def __init__(self, what: str, servers: Iterable[int], result: Result, timeout: float) -> None:
        self._what, self._left, self._result, self._timeout = what, set(servers), result, timeout
        self.overdue = False
        """True if the worker has waited too long. Its node then ends the group and names the late ranks."""
        self._complete = threading.Event()
        self._error: Exception | None = None

    @property
    def done(self) -> bool:
        """True if `wait` returns or raises at once."""
        return self._complete.is_set()

    def wait(self, timeout: float | None = None) -> Result:
        """Block until it is complete. Return the weights by key for a pull, and None for a push.

        ``timeout`` is the total number of seconds; None means the transport's and a little more. Raises the
        error that broke the group: `PeerLost` with the number of a lost rank, or `TransportTimeout` for a
        rank that keeps the others waiting.
        """
        limit = self._timeout + GRACE if timeout is None else timeout
        clock = RunningClock(limit)
        end = clock.now() + limit
        while not self._complete.is_set() and (left := end - clock.now()) > 0:
            self._complete.wait(min(left, clock.step))
        if not self._complete.is_set():
            self.overdue = timeout is None
            if not self.overdue or not self._complete.wait(GRACE):
                raise TransportTimeout(self.late(self._left, limit))
        if self._error is not None:
            raise type(self._error)(str(self._error)) from self._error
        return self._result

    @property
    def left(self) -> set[int]:
        """Ranks of the servers for which it waits."""
        return self._left

    def late(self, silent: Iterable[int], seconds: float) -> str:
        """Return the text of a time-out that the ``silent`` ranks caused."""
        named = set(silent)
        text = f"{self._what}: server rank {_text(named & self._left or self._left)} has not answered"
        if named <= self._left:
            return f"{text} in {seconds:g} s"
        return f"nothing from rank {_text(named)} for {seconds:g} s; {text}, which waits for it"

    def advance(self, server: int) -> bool:
        """Note that the server on one rank is done. Return whether it was the last."""
        self._left = self._left - {server}
        if not self._left:
            self._complete.set()
        return not self._left

    def fail(self, error: Exception) -> None:
        """Complete it with an error."""
        self._error = error
        self._complete.set()


def _text(ranks: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(ranks)))
