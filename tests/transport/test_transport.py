# SPDX-License-Identifier: BSD-2-Clause
"""What every transport promises, on loopback and on TCP over real sockets."""

import threading
import time
from typing import Any

import numpy as np
import pytest
from outcomes import Group, messages
from refusals import refused

from inceptionn import Codec
from inceptionn.transport import PeerLost, Transport, TransportError, TransportTimeout, loopback


def payload(length: int, seed: int) -> bytes:
    return np.random.default_rng(seed).bytes(length)


@pytest.mark.parametrize("size", [2, 3, 5])
def test_messages_keep_their_boundaries_and_order(group: Group, size: int) -> None:
    lengths = [0, 1, 7, 0, 4096, 3, 1_000_001, 0, 8, 300_000]

    def exchange(t: Transport) -> list[bytes]:
        following, previous = (t.rank + 1) % t.size, (t.rank - 1) % t.size
        sends = [t.isend(following, payload(n, t.rank * 100 + i)) for i, n in enumerate(lengths)]
        got = []
        for n in lengths:
            buffer = bytearray(n + 5)  # more room than comes
            got.append(bytes(buffer[: t.recv_into(previous, buffer)]))
        assert [request.wait() for request in sends] == lengths
        return got

    for rank, got in enumerate(group(size, exchange)):
        assert got == [payload(n, (rank - 1) % size * 100 + i) for i, n in enumerate(lengths)]


def test_an_empty_message_whose_header_came_with_another(group: Group) -> None:
    def run(t: Transport) -> list[int]:
        if t.rank:
            t.wait_all([t.isend(0, b"x"), t.isend(0, b"")])
        t.barrier()
        got = [] if t.rank else [t.recv_into(1, bytearray(1)) for _ in range(2)]
        t.barrier()
        return got

    assert group(2, run, timeout=5.0)[0] == [1, 0]


def test_receives_posted_ahead_are_filled_in_order(group: Group) -> None:
    def run(t: Transport) -> list[int]:
        if t.rank:
            t.wait_all([t.isend(0, bytes([i]) * (i * 1000)) for i in range(20)])
            t.barrier()
            return []
        buffers = [bytearray(20_000) for _ in range(20)]
        requests = [t.irecv_into(1, buffer) for buffer in buffers]
        lengths = [request.wait() for request in requests]
        assert all(request.test() for request in requests)
        assert all(buffer[: i * 1000] == bytes([i]) * (i * 1000) for i, buffer in enumerate(buffers))
        t.barrier()
        return lengths

    assert group(2, run)[0] == [i * 1000 for i in range(20)]


@pytest.mark.parametrize("size", [2, 4])
def test_sendrecv_of_much_more_than_socket_buffers(group: Group, size: int) -> None:
    count = 4_000_000

    def run(t: Transport) -> bool:
        mine, theirs = np.full(count, t.rank, np.float32), np.empty(count, np.float32)
        got = t.sendrecv((t.rank + 1) % t.size, mine, (t.rank - 1) % t.size, theirs)
        return got == theirs.nbytes and bool(np.all(theirs == (t.rank - 1) % t.size))

    assert group(size, run) == [True] * size


def test_floats_are_a_stream_cut_by_the_receiver(group: Group) -> None:
    codec = Codec()
    x = np.random.default_rng(3).normal(scale=0.01, size=50_000).astype(np.float32)

    def run(t: Transport) -> np.ndarray | None:
        assert t.nic
        assert t.nic_codec == codec
        if t.rank == 0:
            for part in np.split(x, [1, 5, 5, 20_000]):
                t.send(1, part, tagged=True)
            t.send(1, b"message")  # does not disturb the floats
            t.barrier()
            return None
        message = bytearray(7)
        assert t.recv_into(0, message) == 7
        assert message == b"message"
        y = np.empty_like(x)
        for part in np.split(y, [3, 10_000]):
            assert t.recv_into(0, part, tagged=True) == part.nbytes
        t.barrier()
        return y

    y = group(2, run, nic=codec)[1]
    lossy = codec.lossy(x)
    assert np.all((y == x) | (y == lossy))


def test_no_floats_are_complete_at_once(group: Group) -> None:
    def run(t: Transport) -> list[bool]:
        requests = [
            t.irecv_into(1 - t.rank, bytearray(), tagged=True), t.isend(1 - t.rank, b"", tagged=True)
        ]  # fmt: skip
        found = [request.test() for request in requests]
        t.barrier()
        return found

    assert group(2, run, nic=Codec()) == [[True, True]] * 2


def test_all_are_waited_for(group: Group) -> None:
    def run(t: Transport) -> list[bytearray]:
        buffers = [bytearray(1) for _ in range(3)]
        if t.rank:
            t.recv_into(0, bytearray(1))  # so that rank 0 has not received anything before it waits
            t.wait_all([t.isend(0, bytes([i])) for i in range(3)])
        else:
            requests = [t.irecv_into(1, buffer) for buffer in buffers]
            t.send(1, b"x")
            t.wait_all(requests)
        found = [bytearray(buffer) for buffer in buffers]
        t.barrier()
        return found

    assert group(2, run)[0] == [b"\0", b"\1", b"\2"]


def test_exchange_and_barrier(group: Group) -> None:
    def run(t: Transport) -> list[Any]:
        found = [t.exchange({"rank": t.rank, "text": "ü" * (i + 1), "none": None}) for i in range(10)]
        start = time.monotonic()
        if t.rank == 0:
            time.sleep(0.3)
        t.barrier()
        assert t.rank == 0 or time.monotonic() - start > 0.25
        return found

    results = group(3, run)
    want = [[{"rank": r, "text": "ü" * (i + 1), "none": None} for r in range(3)] for i in range(10)]
    assert results == [want] * 3


def test_another_time_limit_for_a_while() -> None:
    (t,) = loopback(1, timeout=3.0)
    with t.patience(0.5):
        assert t.timeout == 0.5
    with t.patience(None):
        assert t.timeout == 3.0
    wrong: Any
    for wrong in (0, -1, float("inf"), float("nan"), "1"):
        refused(ValueError, "timeout must be a number of seconds above 0, not ", t.patience(wrong).__enter__)
    assert t.timeout == 3.0


def test_a_group_of_one(group: Group) -> None:
    def run(t: Transport) -> list[Any]:
        t.barrier()
        refused(ValueError, "peer must be another rank", t.send, 0, b"x")
        return t.exchange("alone")

    assert group(1, run) == [["alone"]]


def test_wrong_arguments_leave_the_group_usable(group: Group) -> None:
    def run(t: Transport) -> str:
        other = 1 - t.rank
        refused(ValueError, r"rank of 0\.\.1, not 2", t.send, 2, b"x")
        refused(ValueError, "not -1", t.irecv_into, -1, bytearray(1))
        refused(ValueError, "read-only", t.recv_into, other, b"constant")
        refused(ValueError, "C-contiguous", t.send, other, np.zeros((4, 4), np.float32)[:, 1])
        refused(ValueError, "multiple of 4 bytes, not 6", t.send, other, b"sixsix", tagged=True)
        with pytest.raises(TypeError):
            t.send(other, "text")  # type: ignore[arg-type]
        t.sendrecv(other, b"fine", other, buffer := bytearray(4))
        return buffer.decode()

    assert group(2, run, nic=Codec()) == ["fine", "fine"]


def test_floats_need_connections_for_them(group: Group) -> None:
    def run(t: Transport) -> str:
        assert not t.nic
        refused(ValueError, "no connections for tagged floats", t.send, 1 - t.rank, b"four", tagged=True)
        return "ok"

    assert group(2, run, nic=False) == ["ok"] * 2


def test_message_longer_than_the_buffer_breaks_the_group(group: Group) -> None:
    def run(t: Transport) -> None:
        if t.rank == 0:
            t.send(1, bytes(100))
        else:
            t.recv_into(0, bytearray(99))
        t.barrier()

    first, second = group(2, run)
    assert messages([second], TransportError) == {"rank 0 sent a message of 100 bytes to a buffer of 99"}
    assert all("100 bytes to a buffer of 99" in text for text in messages([first], PeerLost))


def test_silence_ends_in_a_timeout_everywhere(group: Group) -> None:
    def run(t: Transport) -> None:
        if t.rank == 2:
            time.sleep(1.5)  # says nothing, in good health
        t.recv_into((t.rank + 1) % 3, bytearray(4))

    start = time.monotonic()
    results = group(3, run, timeout=0.5)
    assert time.monotonic() - start < 5
    assert any(isinstance(result, TransportTimeout) for result in results)
    assert all(isinstance(result, TransportTimeout | PeerLost) for result in results), results


def test_a_rank_that_raises_takes_the_others_along(group: Group) -> None:
    def run(t: Transport) -> None:
        if t.rank == 1:
            raise ZeroDivisionError("the model exploded")
        t.recv_into((t.rank + 1) % t.size, bytearray(4))

    start = time.monotonic()
    first, own, *last = group(4, run, timeout=20.0)
    assert time.monotonic() - start < 5
    assert isinstance(own, ZeroDivisionError)
    assert messages([first, *last], PeerLost) == {"rank 1 gave up: ZeroDivisionError: the model exploded"}


def test_a_broken_group_stays_broken(group: Group) -> None:
    def run(t: Transport) -> None:
        t.barrier()
        if t.rank == 0:
            t.abort("enough")
        refused(TransportError, "enough", t.recv_into, 1 - t.rank, bytearray(4))
        for call in (lambda: t.send(1 - t.rank, b"x"), t.barrier, lambda: t.exchange(1)):
            with pytest.raises(TransportError):
                call()
        t.close()

    assert group(2, run) == [None, None]


def test_waiting_for_a_rank_that_has_closed(group: Group) -> None:
    def run(t: Transport) -> None:
        if t.rank == 1:
            return
        t.barrier()

    first, own, last = group(3, run)
    assert own is None
    assert all("rank 1" in text for text in messages((first, last), PeerLost))


def test_closing_twice_and_using_what_is_closed(group: Group) -> None:
    def run(t: Transport) -> None:
        t.barrier()
        t.close()
        t.close()
        refused(TransportError, "closed", t.send, 1 - t.rank, b"x")
        refused(TransportError, "closed", t.irecv_into, 1 - t.rank, bytearray(1))
        refused(TransportError, "closed", t.wait_any, [], 0)
        refused(TransportError, "closed", t.exchange, 1)

    assert group(2, run) == [None, None]


def test_waiting_with_what_is_closed(group: Group) -> None:
    over = threading.Event()

    def run(t: Transport) -> None:
        if t.rank == 1:
            assert over.wait(20)
            return
        request = t.irecv_into(1, bytearray(1))
        t.close()
        try:
            refused(TransportError, "closed", request.wait)
        finally:
            over.set()

    assert group(2, run) == [None, None]


def test_values_that_cannot_be_exchanged(group: Group) -> None:
    """They are refused where they are, and the group goes on."""

    def run(t: Transport) -> list[Any]:
        if t.rank == 1:
            refused(TypeError, "not JSON serializable", t.exchange, np.float32(1))
        return t.exchange((t.rank, "a"))

    assert group(2, run) == [[[0, "a"], [1, "a"]]] * 2


def test_an_exchange_of_long_values(group: Group) -> None:
    """The time is in proportion to what is exchanged; 8 MB of each rank took 14 s as pieces joined anew."""
    values = [str(rank) * 8_000_000 for rank in range(3)]
    assert group(3, lambda t: t.exchange(values[t.rank]) == values) == [True] * 3


def test_an_exchange_of_a_value_that_is_too_long(tcp: Group) -> None:
    def run(t: Transport) -> None:
        t.exchange("x" * (17_000_000 if t.rank == 1 else 10))

    text = "rank 1's value of an exchange takes 17000002 bytes as JSON, more than 16252928: send data as messages"  # noqa: E501
    for rank, error in enumerate(tcp(3, run)):
        assert type(error) is (TransportError if rank == 1 else PeerLost)
        assert str(error) == text


@pytest.mark.parametrize("depth", [500, 100_000])
def test_a_value_that_is_nested_too_deeply(tcp: Group, depth: int) -> None:
    deep: Any = []
    for _ in range(depth):
        deep = [deep]

    def run(t: Transport) -> Any:
        refused(TypeError, "nested so deeply", t.exchange, deep)
        return t.exchange(t.rank)

    try:
        assert tcp(2, run) == [[0, 1]] * 2
    finally:
        while deep:
            deep = deep[0]  # freed level by level
