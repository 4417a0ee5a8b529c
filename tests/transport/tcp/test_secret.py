# SPDX-License-Identifier: BSD-2-Clause
"""A group's secret: ranks with it join, others are refused, and recorded messages are of no use."""

import hashlib
import hmac
import json
import os
import socket
import threading
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from outcomes import outcomes
from refusals import refused

from inceptionn import Codec
from inceptionn.transport import PeerLost, TcpTransport, TransportError, connect
from inceptionn.transport.tcp import joining
from inceptionn.transport.tcp.acceptor import Acceptor
from inceptionn.transport.tcp.control import PROTOCOL
from inceptionn.transport.tcp.joining import await_welcome
from inceptionn.transport.tcp.line import Line
from inceptionn.transport.tcp.mesh import Terms
from inceptionn.transport.tcp.rendezvous import GRACE, _Gathering, listen
from inceptionn.transport.tcp.secret import nonce, proof, secret_of, shared


def hello(rank: int, size: int, **fields: Any) -> dict[str, Any]:
    return {
        "rank": rank, "size": size, "protocol": PROTOCOL, "job": "", "nic": "no", "tos": 40,
        "host": "127.0.0.1", "ports": [1], "nonce": nonce(), "secret": True, **fields,
    }  # fmt: skip


@contextmanager
def forming(port: int, size: int, **settings: Any) -> Iterator[None]:
    """Hold a group of which rank 0 has come; at the end the others come, and it must form."""
    listener, over = listen(("127.0.0.1", port)), threading.Event()

    def run(rank: int) -> Any:
        own = {"nic": False, "timeout": 10} | settings | ({} if rank else {"listener": listener})
        assert rank == 0 or over.wait(30)
        with connect(rank, size, f"127.0.0.1:{port}", **own) as t:
            return t.exchange(rank)

    with ThreadPoolExecutor() as pool:
        found = pool.submit(outcomes, [partial(run, rank) for rank in range(size)])
        try:
            yield
        finally:
            over.set()
        assert found.result() == [list(range(size))] * size


@pytest.mark.parametrize("nic", [False, None, Codec()])
def test_ranks_with_the_secret_form_a_group(port: int, nic: Any) -> None:
    with forming(port, 3, secret="geheim", nic=nic):
        pass


@pytest.mark.parametrize(
    ("theirs", "text"),
    [
        (None, "rank 1 has no secret, rank 0 has one: give secret=, or set INCEPTIONN_SECRET or "),
        ("wrong", "the secret differs: rank 1 has another one than rank 0 (secret=, INCEPTIONN_SECRET, "),
    ],
)
def test_a_rank_without_the_secret_is_refused_and_the_others_form(
    port: int, theirs: str | None, text: str
) -> None:
    with forming(port, 3, secret=b"right"):
        with pytest.raises(TransportError) as error:
            connect(1, 3, f"127.0.0.1:{port}", nic=False, timeout=10, secret=theirs)
        assert str(error.value).startswith(text)


def test_a_rank_with_a_secret_does_not_join_a_group_without(port: int) -> None:
    with forming(port, 2), pytest.raises(TransportError, match="rank 1 has a secret, rank 0 has none"):
        connect(1, 2, f"127.0.0.1:{port}", nic=False, timeout=10, secret="mine")


DIFFERS = "the secret differs: rank 1 has another one than rank 0 (secret=, INCEPTIONN_SECRET, "


def test_a_wrong_proof_is_refused_and_learns_nothing(port: int) -> None:
    """No HMAC by which to guess the secret, and not the job."""
    with (
        forming(port, 2, secret="right", job="hidden"),
        socket.create_connection(("127.0.0.1", port)) as sock,
    ):
        line = Line(sock, 5)
        line.send(hello(1, 2))
        assert line.receive()[0].keys() == {"challenge"}
        line.send({"proof": nonce()})
        (said,) = line.receive()
        assert said.keys() == {"refused"}
        assert said["refused"].startswith(DIFFERS)


def test_who_was_asked_for_a_proof_and_went_is_forgotten(port: int) -> None:
    with listen(("127.0.0.1", port)) as listener, Acceptor(listener) as acceptor:
        gathering = _Gathering(acceptor, hello(0, 2), b"right")
        for _ in range(20):
            with socket.create_connection(("127.0.0.1", port)) as sock:
                Line(sock, 5).send(hello(1, 2))
                said = []
                while not said:
                    said = acceptor.receive(time.monotonic() + 5)
                gathering.take(*said.pop())
                assert len(gathering._asked) == 1
            while acceptor._candidates:
                acceptor.receive(time.monotonic() + 0.1)
            assert not gathering._asked


def test_an_error_lists_no_more_than_four_refusals() -> None:
    class Stranger:
        said: Any = None

        def send(self, said: dict[str, Any]) -> None:
            self.said = said

    closed: list[Any] = []
    acceptor: Any = SimpleNamespace(reject=closed.append)
    gathering = _Gathering(acceptor, hello(0, 9), b"right")
    strangers: list[Any] = [Stranger() for _ in range(6)]
    for rank, stranger in enumerate(strangers, 1):
        gathering.take(stranger, hello(rank, 9, secret=False))
        assert stranger.said["refused"].startswith(f"rank {rank} has no secret")
    assert closed == strangers
    assert [said.split()[1] for said in gathering.refused] == ["1", "2", "3", "4"]


def test_a_stranger_that_is_wrong_is_closed_before_the_ranks_have_come(port: int) -> None:
    with forming(port, 2), socket.create_connection(("127.0.0.1", port), 5) as stranger:
        stranger.sendall(b'{"rank":1}\n')
        assert stranger.recv(1) == b""


def test_what_was_heard_cannot_be_used_again(port: int) -> None:
    with forming(port, 2, secret="right"):
        greeting = hello(1, 2)
        challenges = []
        for answered in ("", proof(b"right", "rank", greeting, nonce())):  # as an eavesdropper heard it
            with socket.create_connection(("127.0.0.1", port)) as sock:
                line = Line(sock, 5)
                line.send(greeting)
                challenges.append(line.receive()[0]["challenge"])
                line.send({"proof": answered or proof(b"right", "rank 0", greeting, challenges[0])})
                assert "refused" in line.receive()[0]
        assert challenges[0] != challenges[1]


@pytest.mark.parametrize(
    ("replies", "error", "text"),
    [
        ([{"challenge": nonce()}, {"proof": nonce()}], TransportError, "^the secret differs: what listens"),
        ([{"welcome": [], "session": nonce()}], PeerLost, "is not rank 0: .*'challenge' is missing"),
        ([{"challenge": nonce()}, {"refused": "no " * 900}], TransportError, "^no no no"),
        ([{"challenge": nonce()}], PeerLost, "what listens at the rendezvous is not rank 0: EOFError"),
    ],
)
def test_what_only_claims_to_be_rank_0_is_found_out(
    replies: list[Any], error: type[Exception], text: str
) -> None:
    with listen(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()) as ours:

        def answer() -> None:
            theirs = Line(listener.accept()[0], 5)
            with theirs.sock:
                for reply in replies:
                    theirs.fill()
                    theirs.send(reply)
                theirs.sock.shutdown(socket.SHUT_WR)
                theirs.sock.recv(1)

        thread = threading.Thread(target=answer)
        thread.start()
        refused(error, text, await_welcome, Line(ours, 5), hello(1, 2), 5, b"right")
        ours.close()
        thread.join(10)


def test_a_connection_to_itself_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """TCP gives one where a port without a listener is also the port that the kernel has drawn."""
    made = socket.socket()
    made.bind(("127.0.0.1", 0))
    made.connect(made.getsockname())
    monkeypatch.setattr(socket, "create_connection", lambda *_, **__: made)
    refused(ConnectionRefusedError, "nobody listens", joining._connected, ("127.0.0.1", 1), 1.0, None)
    assert made.fileno() == -1


def test_a_rank_waits_longer_than_rank_0(monkeypatch: pytest.MonkeyPatch) -> None:
    """So it hears from rank 0 which ranks are missing. The clock stands still, so all of its time is left."""
    monkeypatch.setattr(joining, "time", SimpleNamespace(monotonic=lambda: 100.0))
    limits = []

    class Watched(Line):
        def fill(self) -> None:
            limits.append(self.sock.gettimeout())
            super().fill()

    with (
        listen(("127.0.0.1", 0)) as listener,
        socket.create_connection(listener.getsockname(), 10) as ours,
        listener.accept()[0] as theirs,
    ):
        theirs.sendall(b'{"challenge":"%b"}\n' % nonce().encode())
        theirs.sendall(b'{"refused":"rank 2 is missing"}\n')
        refused(TransportError, "^rank 2 is missing$", await_welcome, Watched(ours, 10), hello(1, 3), 5)
    assert set(limits) == {5 + GRACE}


@pytest.mark.parametrize("proved", [False, True])
def test_what_has_not_proved_itself_costs_no_memory(proved: bool) -> None:
    """One endless line, before any proof, and as a welcome that a relay adds after rank 0's own proof."""
    with listen(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()) as ours:
        sent = 0

        def flood() -> None:
            nonlocal sent
            theirs = Line(listener.accept()[0], 5)
            with theirs.sock, suppress(OSError):
                theirs.fill()
                if proved:
                    greeting, challenge = json.loads(theirs.lines.popleft()), nonce()
                    theirs.send({"challenge": challenge})
                    theirs.fill()
                    theirs.send({"proof": proof(b"right", "rank 0", greeting, challenge)})
                while sent < 1 << 27:
                    sent += theirs.sock.send(b"0" * (1 << 16))

        thread = threading.Thread(target=flood)
        thread.start()
        line = Line(ours, 5)
        refused(PeerLost, "a line is longer than 8192 bytes", await_welcome, line, hello(1, 2), 5, b"right")
        assert len(line._partial) <= 1 << 15
        ours.close()
        thread.join(10)
        assert sent < 1 << 27


@pytest.mark.parametrize(
    ("seen", "said", "found"),
    [
        ("fe80::1%eth0", "fe80::1", "fe80::1%eth0"),
        ("fe80::1", "fe80::1%eth5", "fe80::1"),
        ("fe80::9%eth0", "fe80::1", "fe80::1"),
    ],
)
def test_the_address_of_rank_0_has_the_scope_of_this_host(seen: str, said: str, found: str) -> None:
    """Where rank 0 listens at all addresses; that of a relay is not taken."""
    own, challenge, session = hello(1, 2), nonce(), nonce()
    ranks = json.dumps({"ranks": [hello(0, 2) | {"host": "::"}, own]}).encode()
    digest = hashlib.sha256(ranks).hexdigest()
    welcome = {"welcome": digest, "session": session, "host": said}
    welcome["proof"] = proof(b"right", "welcome", own, challenge, session, said, digest)
    sock = SimpleNamespace(getpeername=lambda: (seen, 1))
    lines = deque(map(bytearray, (json.dumps(welcome).encode(), ranks)))
    line: Any = SimpleNamespace(lines=lines, sock=sock, trust=lambda limit=0: None)
    hellos, _ = joining._welcomed(line, own, challenge, time.monotonic() + 5, b"right")
    assert hellos[0]["host"] == found


def test_where_the_secret_comes_from(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("INCEPTIONN_SECRET", raising=False)
    monkeypatch.delenv("INCEPTIONN_SECRET_FILE", raising=False)
    assert secret_of(None) == b""
    file = tmp_path / "secret"
    file.write_bytes(b"of the file\r\n")
    file.chmod(0o600)
    monkeypatch.setenv("INCEPTIONN_SECRET_FILE", str(file))
    assert secret_of(None) == b"of the file"
    monkeypatch.setenv("INCEPTIONN_SECRET", "of the variable")
    assert secret_of(None) == b"of the variable"
    assert secret_of("ä") == "ä".encode()
    monkeypatch.setenv("INCEPTIONN_SECRET", "")
    refused(ValueError, "INCEPTIONN_SECRET is empty; give a secret or leave it out", secret_of, None)
    refused(ValueError, "secret= is empty", secret_of, b"")
    monkeypatch.delenv("INCEPTIONN_SECRET")
    file.unlink()
    refused(ValueError, "cannot be read: No such file or directory", secret_of, None)


def test_the_key_of_a_group_that_others_brought_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """The random bytes alone do not give it, once a rank has a secret of its own."""
    monkeypatch.delenv("INCEPTIONN_SECRET", raising=False)
    monkeypatch.delenv("INCEPTIONN_SECRET_FILE", raising=False)
    assert shared(b"random") == b"random"
    keys = {b"random"}
    for own, random in (("a", b"random"), ("b", b"random"), ("a", b"other")):
        monkeypatch.setenv("INCEPTIONN_SECRET", own)
        assert shared(random) == hmac.digest(own.encode(), b"inceptionn group\0" + random, "sha256")
        keys.add(shared(random))
    assert len(keys) == 4


@pytest.mark.parametrize("mode", [0o640, 0o620, 0o644, 0o602, 0o604])
def test_a_secret_that_other_users_can_read_is_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, mode: int
) -> None:
    monkeypatch.delenv("INCEPTIONN_SECRET", raising=False)
    file = tmp_path / "secret"
    file.write_bytes(b"known")
    file.chmod(mode)
    monkeypatch.setenv("INCEPTIONN_SECRET_FILE", str(file))
    with pytest.warns(UserWarning, match="is open to other users of this host: chmod 600 .*secret$") as said:
        assert secret_of(None) == b"known"
    assert said[0].filename == __file__


def test_a_secret_of_another_type_is_refused_and_bytes_of_the_environment_are_those_of_a_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """``bytes(1234)`` would be 1234 zeros, which everybody knows."""
    wrong: Any
    for wrong in (1234, 0, True, ["a"], tmp_path):
        refused(TypeError, "secret must be str or bytes, not", secret_of, wrong)
    raw = b"\xff\x80 no UTF-8"
    monkeypatch.delenv("INCEPTIONN_SECRET", raising=False)
    monkeypatch.setitem(os.environb, b"INCEPTIONN_SECRET", raw)
    assert secret_of(None) == raw


def test_a_group_by_the_environment(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INCEPTIONN_SECRET", "of all")
    with forming(port, 2), socket.create_connection(("127.0.0.1", port)) as sock:
        line = Line(sock, 5)
        line.send(hello(1, 2, secret=False))
        assert "rank 1 has no secret" in line.receive()[0]["refused"]


def test_no_repr_shows_the_secret_and_that_of_a_half_made_transport_works() -> None:
    terms = Terms(0x28, None, 1.0, b"hunter2", "session")
    assert "hunter2" not in repr(terms)
    transport = TcpTransport.__new__(TcpTransport)
    assert repr(transport) == "<TcpTransport, not connected>"
    transport.rank, transport.size = 0, 2
    assert repr(transport) == "<TcpTransport rank 0 of 2>"
