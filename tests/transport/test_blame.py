# SPDX-License-Identifier: BSD-2-Clause
"""Whom an error names: the rank whose fault it is, not one that suffers from it as well."""

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import chain, repeat
from types import SimpleNamespace
from typing import Any

import pytest
from outcomes import Group, messages

from inceptionn.transport import PeerLost, TcpTransport, Transport, TransportError, TransportTimeout, base
from inceptionn.transport.base import silent_of


def test_what_the_control_line_said_wins(tcp: Group) -> None:
    """Rank 2 gives up, rank 1 hears of it and closes; what rank 0 sees first is that rank 1 is gone."""
    gone = threading.Event()

    def run(t: TcpTransport) -> None:
        t.barrier()
        if t.rank == 2:
            t.abort("it was me")
        elif t.rank == 1:
            try:
                t.recv_into(2, bytearray(1))
            finally:
                gone.set()
        else:
            assert gone.wait(20)
            with suppress(PeerLost):
                t._control.pump(20)  # as if the end of a transfer and the notice came together
            while True:
                t.send(1, bytes(100_000))

    for error in tcp(3, run)[:2]:
        assert isinstance(error, PeerLost)
        assert str(error).startswith("rank 2 "), error


def of_one_late(group: Group, late: int, wait: Callable[[Transport], object]) -> list[Exception]:
    """Return what three of four ranks get that wait like this; the fourth waits once they have given up."""
    over = threading.Semaphore(0)

    def run(t: Transport) -> None:
        t.barrier()
        if t.rank == late:
            for _ in range(t.size - 1):
                assert over.acquire(timeout=30)
        try:
            wait(t)
        finally:
            over.release()

    found = group(4, run, timeout=3.0)
    return [error for rank, error in enumerate(found) if rank != late]


@pytest.mark.parametrize("victim", [0, 1, 3])
def test_a_chain_of_waits_ends_at_the_silent_rank(group: Group, victim: int) -> None:
    """Each rank waits for the one before it; all of them name the one that waits for nobody."""
    for error in of_one_late(group, victim, lambda t: t.recv_into((t.rank - 1) % t.size, bytearray(1))):
        assert isinstance(error, TransportTimeout | PeerLost)
        assert f"nothing from rank {victim} for 3 s" in str(error)


@pytest.mark.parametrize("victim", [0, 2])
def test_an_exchange_names_who_did_not_come(group: Group, victim: int) -> None:
    for text in messages(of_one_late(group, victim, Transport.barrier), TransportError):
        assert f"waited for an exchange with all ranks: nothing from rank {victim} for 3 s" in text


def test_who_waits_for_whom() -> None:
    assert silent_of({1}, {}) == [1]
    assert silent_of({1}, {1: [2], 2: [3, 4], 4: [1]}) == [3]
    assert silent_of({1, 5}, {1: [2]}) == [2, 5]
    assert silent_of({1}, {1: [2], 2: [1]}) == [1]


def test_a_rank_that_has_waited_shortly_is_not_silent(threads: Group) -> None:
    over = threading.Event()

    def run(t: Any) -> list[int] | None:
        if t.rank:
            assert over.wait(20)
            return None
        try:
            begun = time.monotonic()
            with pytest.raises(TransportTimeout):
                t.irecv_into(1, bytearray(1)).wait(0.01)
            assert time.monotonic() - begun >= 0.01
            return t._group.silent([0])
        finally:
            over.set()

    assert threads(2, run)[0] == [1]


def test_who_is_silent_is_asked_anew(tcp: Group) -> None:
    def run(t: TcpTransport) -> Any:
        found = t.silent([2]) if t.rank == 1 else None
        t.barrier()
        return found

    assert tcp(3, run)[1] == [2]


def test_a_rank_that_data_reaches_waits_no_longer(tcp: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says so, else rank 0 would go on to name the rank it waited for in its place.

    Its clock shows at once that half of its time limit is over, so it has told rank 0 of its wait.
    """

    def run(t: TcpTransport) -> Any:
        if t.rank:
            clock = chain([0.0, 0.0], repeat(20.0))
            monkeypatch.setattr(base, "_STEP", 5.0)  # else it is a stop of its own
            monkeypatch.setattr(base, "time", SimpleNamespace(monotonic=lambda: next(clock)))
            t.recv_into(0, bytearray(1))
            return t.exchange(None)
        t._control.pump(10)
        told = dict(t._control._waits)
        t.send(1, b"x")
        t.exchange(None)  # what rank 1 says comes after what it said before
        return told, t._control._waits

    assert tcp(2, run, timeout=40.0)[0] == ({1: [0]}, {})


def test_the_reason_of_another_rank_is_printed_escaped(tcp: Group) -> None:
    def run(t: TcpTransport) -> None:
        t.barrier()
        if t.rank == 1:
            t.abort("\x1b[2J\nall is well")
        else:
            t.recv_into(1, bytearray(1))

    assert str(tcp(2, run)[0]) == r"rank 1 gave up: \x1b[2J\nall is well"
