# SPDX-License-Identifier: BSD-2-Clause
"""Attackers between ranks with the right secret, and members that never read."""

import hashlib
import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from outcomes import outcomes

from inceptionn.transport import PeerLost, TcpTransport, TransportError, TransportTimeout, connect
from inceptionn.transport.tcp import formation, mesh
from inceptionn.transport.tcp.line import Line
from inceptionn.transport.tcp.rendezvous import listen

SECRET = "of all ranks"
Change = Callable[[bytes], bytes]


def ranks(calls: list[Callable[[], TcpTransport]]) -> list[Any]:
    """Return what each rank got: all ranks' numbers, and the value that its neighbour sent; or an error."""

    def rank(call: Callable[[], TcpTransport]) -> Any:
        with call() as t:
            got = bytearray(4)
            t.sendrecv(1 - t.rank, b"%04d" % t.rank, 1 - t.rank, got)
            return t.exchange(t.rank), bytes(got)

    return outcomes([partial(rank, call) for call in calls])


def pair(listener: socket.socket, theirs: str, **settings: Any) -> list[Any]:
    """Rank 0 at the listener, and rank 1, which reaches rank 0 at the address ``theirs``."""
    own: dict[str, Any] = {"nic": False, "timeout": 10, "secret": SECRET} | settings
    host, port = listener.getsockname()
    return ranks([
        lambda: connect(0, 2, f"{host}:{port}", listener=listener, **own),
        lambda: connect(1, 2, theirs, **own),
    ])  # fmt: skip


GOOD = [([0, 1], b"0001"), ([0, 1], b"0000")]


@contextmanager
def relay(
    to: tuple[str, int], change: Change = bytes, spy: Change | None = None, at: str = "127.0.0.1"
) -> Iterator[tuple[str, int]]:
    """Relay one connection. ``change`` rewrites each line of an answer; ``spy`` sees questions."""
    with ExitStack() as stack:
        listener = stack.enter_context(listen((at, 0)))
        threads: list[threading.Thread] = []

        def pipe(source: socket.socket, target: socket.socket, change: Change, lines: bool) -> None:
            with suppress(OSError):
                reader = source.makefile("rb")
                while data := reader.readline() if lines else source.recv(1 << 16):
                    target.sendall(change(data))
            for sock in (source, target):
                with suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)

        def serve() -> None:
            with suppress(OSError):
                asking = stack.enter_context(listener.accept()[0])
                answering = stack.enter_context(socket.create_connection(to, 10))
                for args in ((asking, answering, spy or bytes, False), (answering, asking, change, not spy)):
                    threads.append(threading.Thread(target=pipe, args=args, daemon=True))
                    threads[-1].start()

        first = threading.Thread(target=serve, daemon=True)
        first.start()
        yield listener.getsockname()
        listener.close()
        first.join(20)
        for thread in threads:
            thread.join(20)


@pytest.mark.parametrize("resealed", [False, True])
def test_a_relay_at_the_rendezvous_cannot_change_rank_0s_port(resealed: bool) -> None:
    """Else it would lead rank 1's data through itself."""

    def rewrite(data: bytes) -> bytes:
        said = json.loads(data)
        if "ranks" in said:
            said["ranks"][0]["ports"] = [1]
        elif "welcome" in said and resealed:
            said["welcome"] = hashlib.sha256(b"another").hexdigest()
        return json.dumps(said).encode() + b"\n"

    with listen(("127.0.0.1", 0)) as listener, relay(listener.getsockname(), rewrite) as (host, port):
        found = pair(listener, f"{host}:{port}")
    assert isinstance(found[1], TransportError)
    assert "changed on" in str(found[1])
    assert isinstance(found[0], TransportError)


def test_a_rank_does_not_take_a_relay_for_rank_0s_address() -> None:
    """Rank 0 listens at all addresses of its host, so its own hello names none."""
    peers: list[str] = []
    with listen(("0.0.0.0", 0)) as listener:
        port = listener.getsockname()[1]
        with relay(("127.0.0.1", port), at="127.0.0.2") as (host, other):

            def one() -> TcpTransport:
                t = connect(1, 2, f"{host}:{other}", nic=False, timeout=10, secret=SECRET)
                peers.append(t.sockets()[0].getpeername()[0])
                return t

            zero = {"nic": False, "timeout": 10, "secret": SECRET, "listener": listener}
            found = ranks([lambda: connect(0, 2, f"0.0.0.0:{port}", **zero), one])
    assert found == GOOD
    assert peers == ["127.0.0.1"]


def test_a_copy_of_a_data_connection_is_not_admitted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever sees what rank 1 sends repeats it at rank 0's data port, each time before it arrives."""
    make = mesh._socket
    answers: list[bytes] = []
    with ExitStack() as stack:

        def led(where: tuple[str, int], *rest: Any) -> Any:
            thief = stack.enter_context(socket.create_connection(where, 10))
            thief.settimeout(1)

            def copy(data: bytes) -> bytes:
                if len(answers) < 2:
                    with suppress(OSError):
                        thief.sendall(data)
                        answers.append(thief.recv(1 << 12))
                return data

            return make(stack.enter_context(relay(where, spy=copy)), *rest)

        monkeypatch.setattr(mesh, "_socket", led)
        listener = stack.enter_context(listen(("127.0.0.1", 0)))
        port = listener.getsockname()[1]
        assert pair(listener, f"127.0.0.1:{port}") == GOOD
    assert json.loads(answers[0]).keys() == {"nonce"}
    assert answers[1:] in ([], [b""])  # closed


def test_a_rank_that_a_flood_has_replaced_joins_again() -> None:
    """At the rendezvous."""
    with listen(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

        def zero() -> TcpTransport:
            for asked in (False, True, True):
                listener.settimeout(10)
                with listener.accept()[0] as sock:
                    if asked:
                        sock.recv(1 << 13)
            return connect(0, 2, f"127.0.0.1:{port}", nic=False, timeout=10, secret=SECRET, listener=listener)

        one = lambda: connect(1, 2, f"127.0.0.1:{port}", nic=False, timeout=10, secret=SECRET)  # noqa: E731
        assert ranks([zero, one]) == GOOD


def test_a_rank_that_a_flood_has_replaced_connects_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """At a data port."""
    whole = formation.mesh

    def first(t: TcpTransport, hellos: list[Any], accepting: socket.socket, *rest: Any) -> Any:
        if t.rank == 0:
            for asked in (False, True):
                accepting.settimeout(10)
                with accepting.accept()[0] as sock:
                    if asked:
                        sock.recv(1 << 13)
        return whole(t, hellos, accepting, *rest)

    monkeypatch.setattr(formation, "mesh", first)
    with listen(("127.0.0.1", 0)) as listener:
        assert pair(listener, f"127.0.0.1:{listener.getsockname()[1]}") == GOOD


@pytest.mark.parametrize(("timeout", "error"), [(0.3, OSError), (30, PeerLost)])
def test_a_rank_connects_again_until_its_time_is_over_or_another_is_lost(
    timeout: float, error: type[Exception]
) -> None:
    pumps = []

    def pump() -> None:
        pumps.append(1)
        if len(pumps) == 15:
            raise PeerLost("rank 2 is lost")

    rank: Any = SimpleNamespace(rank=1, _control=SimpleNamespace(pump=pump))
    with listen(("127.0.0.1", 0)) as listener:

        def close() -> None:
            with suppress(OSError):
                while True:
                    listener.accept()[0].close()

        threading.Thread(target=close, daemon=True).start()
        terms = mesh.Terms(0, None, timeout, b"", "session")
        with pytest.raises((EOFError, error)) as raised:
            mesh._dial(rank, 0, listener.getsockname(), terms)
        listener.shutdown(socket.SHUT_RDWR)
    assert isinstance(raised.value, PeerLost) == (error is PeerLost)


def test_a_rank_connects_again_while_there_is_time_for_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """At 0, 50 and 100 ms of 120: the clock moves in pauses alone."""
    now, tries = [0.0], []

    def sleep(seconds: float) -> None:
        now[0] += seconds

    def closed(*_: Any) -> None:
        tries.append(now[0])
        raise EOFError("it closed the connection")

    monkeypatch.setattr(mesh, "time", SimpleNamespace(monotonic=lambda: now[0], sleep=sleep))
    monkeypatch.setattr(mesh, "_identify", closed)
    rank: Any = SimpleNamespace(rank=1, _control=SimpleNamespace(pump=lambda: False))
    with listen(("127.0.0.1", 0)) as listener, pytest.raises(EOFError):
        mesh._dial(rank, 0, listener.getsockname(), mesh.Terms(0, None, 0.12, b"", "session"))
    assert len(tries) == 3


def test_a_connection_is_tried_as_long_as_a_rank_may_wait() -> None:
    sock, where = mesh._socket(("127.0.0.1", 9), None, 0.25)
    with sock:
        assert (sock.gettimeout(), where) == (0.25, ("127.0.0.1", 9))


def test_who_listens_and_shows_another_token_is_no_rank() -> None:
    """It has the port of a rank, and not the group's secret."""
    terms = mesh.Terms(0, None, 5, b"secret", "session")
    with ExitStack() as stack:
        listener = stack.enter_context(listen(("127.0.0.1", 0)))
        ours = stack.enter_context(socket.create_connection(listener.getsockname(), 10))
        theirs = stack.enter_context(listener.accept()[0])

        def listens() -> None:
            theirs.sendall(b'{"nonce":"%b"}\n' % (b"0" * 64))
            shown = b""
            while b"token" not in shown:
                shown += theirs.recv(999)
            theirs.sendall(b"0" * 64)

        connects = partial(mesh._identify, Line(ours, 10), 1, 0, terms, time.monotonic() + 10)
        error, _ = outcomes([connects, listens])
    assert isinstance(error, ValueError)
    assert str(error) == "what listens there does not belong to the group"


def test_a_rank_that_never_connects_is_a_time_out() -> None:
    rank: Any = SimpleNamespace(rank=0, size=2, _control=None)
    terms = mesh.Terms(0, None, 0.05, b"", "session")
    with (
        listen(("127.0.0.1", 0)) as accepting,
        pytest.raises(TransportTimeout, match="^rank 1 did not connect to rank 0$"),
    ):
        mesh._accept(rank, accepting, {}, terms)


def test_who_listens_but_shows_no_token_gets_what_is_left_of_the_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Here there is nothing left once it has sent its nonce."""
    clock = iter([0.0, 5.0])
    monkeypatch.setattr(mesh, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    with listen(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname(), 10) as ours:
        with listener.accept()[0] as theirs:
            theirs.sendall(b'{"nonce":"%b"}\n' % (b"0" * 64))
            with pytest.raises(TimeoutError):
                mesh._identify(Line(ours, 10), 1, 0, mesh.Terms(0, None, 5, b"", "session"), 5.0)
        assert ours.gettimeout() == 0.001


@pytest.mark.parametrize(
    ("length", "text"),
    [
        (1, "rank 1 did not say where its connection for floats comes from"),
        (2, "rank 1 is lost: Transport endpoint is not connected"),
    ],
)
def test_a_rank_that_vanishes_before_its_connection_for_floats(length: int, text: str) -> None:
    vanished = socket.socket()
    rank: Any = SimpleNamespace(
        rank=0, size=2, recv_into=lambda peer, buffer: length, sockets=lambda: {1: vanished}
    )
    with vanished, pytest.raises(TransportError) as raised:
        mesh._accept_floats(rank, vanished, {}, mesh.Terms(0, None, 5, b"", "session"))
    assert str(raised.value) == text


def test_a_connection_for_floats_that_never_comes_is_a_time_out() -> None:
    with ExitStack() as stack:
        accepting = stack.enter_context(listen(("127.0.0.1", 0)))
        stack.enter_context(socket.create_connection(accepting.getsockname(), 10))
        messages = stack.enter_context(accepting.accept()[0])

        pumps = []

        def pump() -> None:
            assert not accepting.getblocking()  # else the next call would wait without end
            pumps.append(1)

        control = SimpleNamespace(fileno=messages.fileno, pump=pump)
        rank: Any = SimpleNamespace(
            rank=0, size=2, recv_into=lambda peer, buffer: 2, sockets=lambda: {1: messages}, _control=control
        )
        with pytest.raises(TransportTimeout, match="^rank 1 did not connect to rank 0$"):
            mesh._accept_floats(rank, accepting, {}, mesh.Terms(0, None, 0.05, b"", "session"))
        assert len(pumps) <= 3  # it sleeps meanwhile


def test_a_connection_for_floats_that_fails_leaves_no_descriptor(port: int) -> None:
    with listen(("127.0.0.1", 0)) as own:
        rank: Any = SimpleNamespace(sockets=lambda: {0: own}, send=lambda peer, data: None)
        before = len(os.listdir("/proc/self/fd"))
        with pytest.raises(ConnectionRefusedError) as raised:
            mesh._dial_floats(rank, 0, ("127.0.0.1", port), mesh.Terms(0x28, None, 5, b"", "session"))
        assert len(os.listdir("/proc/self/fd")) == before
    assert raised.value.__traceback__ is not None  # which holds the socket


def test_rank_0_gives_up_at_its_own_time_if_it_only_closes_connections() -> None:
    with listen(("127.0.0.1", 0)) as listener:
        port, stop = listener.getsockname()[1], threading.Event()

        def close() -> None:
            listener.settimeout(0.05)
            while not stop.is_set():
                with suppress(TimeoutError):
                    listener.accept()[0].close()

        thread = threading.Thread(target=close)
        thread.start()
        try:
            with pytest.raises(TransportError, match="what listens at the rendezvous is not rank 0"):
                connect(1, 2, f"127.0.0.1:{port}", nic=False, timeout=0.5)
        finally:
            stop.set()
            thread.join(10)
