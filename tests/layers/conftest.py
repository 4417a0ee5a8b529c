# SPDX-License-Identifier: BSD-2-Clause
"""Groups whose ranks are threads of the test, over each transport that needs no other processes."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from typing import Any

import pytest

from inceptionn.transport import Transport, connect, loopback

Outcomes = Callable[..., list[Any]]


def free_port() -> int:
    """A port that nobody listens at."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def outcomes(makers: list[Callable[[], Transport]], function: Callable[[Transport], Any]) -> list[Any]:
    """What the function returned or raised, per rank."""
    found: list[Any] = [None] * len(makers)

    def run(rank: int) -> None:
        try:
            with makers[rank]() as transport:
                found[rank] = function(transport)
        except Exception as error:
            found[rank] = error

    threads = [threading.Thread(target=run, args=(rank,), daemon=True) for rank in range(len(makers))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), "a rank hangs"
    return found


@pytest.fixture
def tcp() -> Outcomes:
    """``tcp(size, function, **arguments of connect)``: what each rank returned or raised."""

    def run(size: int, function: Callable[[Transport], Any], **arguments: Any) -> list[Any]:
        where = f"127.0.0.1:{free_port()}"
        settings = {"timeout": 10.0, "nic": False} | arguments
        return outcomes(
            [lambda rank=rank: connect(rank, size, where, **settings) for rank in range(size)], function
        )

    return run


@pytest.fixture(params=["loopback", "tcp"])
def group(request: pytest.FixtureRequest, tcp: Outcomes) -> Outcomes:
    """The same over each transport; arguments: ``timeout``, ``nic`` (a codec)."""
    return tcp if request.param == "tcp" else in_process


@pytest.fixture
def threads() -> Outcomes:
    """The same on loopback alone."""
    return in_process


def in_process(size: int, function: Callable[[Transport], Any], **arguments: Any) -> list[Any]:
    transports = loopback(
        size,
        timeout=arguments.get("timeout", 10.0),
        nic_codec=arguments.get("nic") or None,
        seed=arguments.get("seed", 0),
    )
    return outcomes([lambda t=t: t for t in transports], function)
