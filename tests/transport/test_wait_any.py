# SPDX-License-Identifier: BSD-2-Clause
"""`Transport.wait_any` and `wake`: what a rank that serves others waits with."""

import threading
import time
from typing import Any

import pytest
from outcomes import Group, messages

from inceptionn.transport import PeerLost, Transport


def test_the_complete_ones_are_returned(group: Group) -> None:
    def rank(t: Transport) -> Any:
        if t.rank:
            t.send(0, bytes([t.rank]))
            t.barrier()
            return None
        buffers = {peer: bytearray(1) for peer in (1, 2)}
        open_ = {t.irecv_into(peer, buffer): peer for peer, buffer in buffers.items()}
        seen = []
        while open_:
            for request in t.wait_any(list(open_), 5.0):
                seen.append((open_.pop(request), request.wait()))
        t.barrier()
        assert [bytes(buffer) for buffer in buffers.values()] == [b"\1", b"\2"]
        return sorted(seen)

    assert group(3, rank) == [[(1, 1), (2, 1)], None, None]


def test_what_has_come_already_needs_no_time(group: Group) -> None:
    def rank(t: Transport) -> Any:
        if t.rank:
            t.send(0, b"x")
        t.barrier()
        found = not t.rank and len(t.wait_any([t.irecv_into(1, bytearray(1))], 0.9))
        t.barrier()
        return found

    assert group(2, rank)[0] == 1


def test_nothing_arriving_is_no_error(group: Group) -> None:
    def rank(t: Transport) -> Any:
        if t.rank:
            t.exchange("first")
            t.send(0, b"late")
            t.barrier()
            return None
        buffer = bytearray(8)
        request = t.irecv_into(1, buffer)
        early = t.wait_any([request], 0.05)
        t.exchange("first")
        (done,) = t.wait_any([request], 5.0)
        t.barrier()
        return early, done is request, bytes(buffer[: request.wait()])

    assert group(2, rank)[0] == ([], True, b"late")


@pytest.mark.parametrize("ahead", [False, True], ids=["while it waits", "before it waits"])
def test_another_thread_wakes_it(group: Group, ahead: bool) -> None:
    def rank(t: Transport) -> Any:
        if t.rank == 0:
            if ahead:
                t.wake()
            else:
                timer = threading.Timer(0.05, t.wake)
                timer.start()
            begin = time.monotonic()
            done = t.wait_any([t.irecv_into(1, bytearray(1))], 30.0)
            assert time.monotonic() - begin < 15  # it did not wait for the end
            t.barrier()
            t.send(1, b"x")
            return done
        t.barrier()
        t.recv_into(0, bytearray(1))
        return None

    assert group(2, rank)[0] == []


def test_a_rank_that_leaves_is_an_error(group: Group) -> None:
    def rank(t: Transport) -> Any:
        if t.rank == 1:
            raise ValueError("no more")
        t.wait_any([t.irecv_into(1, bytearray(1))], 10.0)
        return None

    lost, _ = group(2, rank)
    assert messages([lost], PeerLost) == {"rank 1 gave up: ValueError: no more"}
