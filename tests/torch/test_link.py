# SPDX-License-Identifier: BSD-2-Clause
"""Calls of a link run in order, in its thread or in that of a caller that waits."""

import queue
import threading
from collections.abc import Callable
from typing import Any

import pytest

from inceptionn.torch.link import Link


class Closing:
    """In place of a transport."""

    closed = False

    def close(self) -> None:
        self.closed = True


def noting(order: list[Any], name: str) -> Callable[[], str]:
    def call() -> str:
        order.append((name, threading.current_thread().name))
        return name

    return call


def test_a_waiting_caller_runs_the_calls_itself() -> None:
    link: Any = Link(Closing())  # type: ignore[arg-type]
    order: list[Any] = []
    awake, link._more = link._more, queue.SimpleQueue()  # the thread learns of nothing
    here = threading.current_thread().name
    first, second, third = (link.submit(noting(order, name)) for name in "abc")
    link.run_until(second)
    assert order == [("a", here), ("b", here)]
    assert first.result(0) == "a"
    assert second.result(0) == "b"
    assert not third.done()
    link._more = awake
    awake.put(True)
    assert third.result(10) == "c"
    assert order[2] == ("c", "inceptionn")
    link.close(10)
    assert link.transport.closed


def test_an_exception_is_the_results() -> None:
    link: Any = Link(Closing())  # type: ignore[arg-type]
    awake, link._more = link._more, queue.SimpleQueue()

    def failing() -> None:
        raise ValueError("this one")

    failed, fine = link.submit(failing), link.submit(lambda: 1)
    link.run_until(failed)
    with pytest.raises(ValueError, match="this one"):
        failed.result(0)
    link.run_until(fine)
    assert fine.result(0) == 1
    link._more = awake
    link.close(10)


def test_the_thread_goes_on_with_what_it_has_begun() -> None:
    link = Link(Closing())  # type: ignore[arg-type]
    order: list[Any] = []
    begun, go_on = threading.Event(), threading.Event()

    def slow() -> None:
        begun.set()
        assert go_on.wait(10)

    link.submit(slow)
    assert begun.wait(10)
    after = link.submit(noting(order, "after"))
    link.run_until(after)  # does not wait for the thread
    assert not order
    go_on.set()
    assert after.result(10) == "after"
    assert order == [("after", "inceptionn")]
    link.close(10)
