# SPDX-License-Identifier: BSD-2-Clause
"""Calls at once, each in a thread of its own: ranks of a group, hosts of a network."""

import threading
from collections.abc import Callable, Iterable, Sequence
from types import UnionType
from typing import Any

Group = Callable[..., list[Any]]
"""A fixture that runs a function at each rank of a group; see ``tests/conftest.py``."""


def outcomes(calls: Sequence[Callable[[], Any]], first: threading.Thread | None = None) -> list[Any]:
    """Return what each of the calls returned or raised. The last one waits for the end of ``first``."""
    found: list[Any] = [None] * len(calls)

    def run(number: int) -> None:
        try:
            found[number] = calls[number]()
        except Exception as error:
            found[number] = error

    threads = [threading.Thread(target=run, args=(number,), daemon=True) for number in range(len(calls))]
    for thread in threads[:-1]:
        thread.start()
    if first is not None:
        first.join(20)
    threads[-1].start()
    for thread in threads:
        thread.join(180)
        assert not thread.is_alive(), "a rank hangs"
    return found


def if_rank_1_says(threads: Group, call: Callable[[Any], Any], *answers: Any) -> list[Any]:
    """Return what ranks 0 and 2 of three got from ``call``.

    In place of ``call``, rank 1 exchanges the answers.
    """

    def run(transport: Any) -> Any:
        if transport.rank != 1:
            return call(transport)
        for answer in answers:
            transport.exchange(answer)
        return None

    return threads(3, run, timeout=5)[::2]


def returned(found: list[Any]) -> list[Any]:
    """Return the outcomes, if all calls returned; else raise the first error."""
    for result in found:
        if isinstance(result, Exception):
            raise result
    return found


def messages(found: Iterable[Any], kind: type[Exception] | UnionType) -> set[str]:
    """Return the different texts of outcomes, each of which must be an error of this kind."""
    texts = set()
    for error in found:
        assert isinstance(error, kind), error
        texts.add(str(error))
    assert texts
    return texts
