# SPDX-License-Identifier: BSD-2-Clause
"""A group's secret: ranks with it join, others are refused, and recorded messages are of no use."""

from __future__ import annotations

import os
import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from inceptionn import Codec
from inceptionn.transport import TcpTransport, TransportError, connect
from inceptionn.transport.tcp.acceptor import Acceptor
from inceptionn.transport.tcp.control import PROTOCOL
from inceptionn.transport.tcp.line import Line
from inceptionn.transport.tcp.mesh import Terms
from inceptionn.transport.tcp.rendezvous import _Gathering, await_welcome, listen
from inceptionn.transport.tcp.secret import nonce, proof, secret_of


def hello(rank: int, size: int, **fields: Any) -> dict[str, Any]:
    return {
        "rank": rank, "size": size, "protocol": PROTOCOL, "job": "", "nic": "no", "tos": 40,
        "host": "127.0.0.1", "ports": [1], "nonce": nonce(), "secret": True, **fields,
    }  # fmt: skip


def begun(port: int, size: int, **settings: Any) -> tuple[list[Any], list[threading.Thread]]:
    """Rank 0, and a place for what it and others get; `end` lets the others come."""
    found: list[Any] = [None] * size
    listener = listen(("127.0.0.1", port))

    def run(rank: int, **own: Any) -> None:
        try:
            with connect(
                rank, size, f"127.0.0.1:{port}", **({"nic": False, "timeout": 10} | settings), **own
            ) as t:
                found[rank] = t.exchange(rank)
        except Exception as error:
            found[rank] = error

    threads = [
        threading.Thread(
            target=run, args=(r,), kwargs={} if r else {"listener": listener}, daemon=True
        )
        for r in range(size)
    ]  # fmt: skip
    threads[0].start()
    return found, threads


def end(threads: list[threading.Thread]) -> None:
    for thread in threads[1:]:
        thread.start()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive(), "a rank hangs"


@pytest.mark.parametrize("nic", [False, None, Codec()])
def test_ranks_with_the_secret_form_a_group(port: int, nic: Any) -> None:
    found, threads = begun(port, 3, secret="geheim", nic=nic)
    end(threads)
    assert found == [[0, 1, 2]] * 3


@pytest.mark.parametrize(
    ("theirs", "text"),
    [
        (None, "rank 1 has no secret, rank 0 has one: give secret=, or set INCEPTIONN_SECRET or "),
        ("wrong", "the secret differs: what listens at the rendezvous has another one than rank 1"),
    ],
)
def test_a_rank_without_the_secret_is_refused_and_the_others_form(
    port: int, theirs: str | None, text: str
) -> None:
    found, threads = begun(port, 3, secret=b"right")
    with pytest.raises(TransportError) as error:
        connect(1, 3, f"127.0.0.1:{port}", nic=False, timeout=10, secret=theirs)
    assert str(error.value).startswith(text)
    end(threads)
    assert found == [[0, 1, 2]] * 3


def test_a_rank_with_a_secret_does_not_join_a_group_without(port: int) -> None:
    found, threads = begun(port, 2)
    with pytest.raises(TransportError, match="rank 1 has a secret, rank 0 has none"):
        connect(1, 2, f"127.0.0.1:{port}", nic=False, timeout=10, secret="mine")
    end(threads)
    assert found == [[0, 1]] * 2


def test_a_wrong_proof_is_refused(port: int) -> None:
    found, threads = begun(port, 2, secret="right")
    with socket.create_connection(("127.0.0.1", port)) as sock:
        line = Line(sock, 5)
        line.send(hello(1, 2))
        assert line.receive()[0].keys() == {"challenge", "proof"}
        line.send({"proof": nonce()})
        assert line.receive() == [{"refused": "the secret differs: rank 1 has another one than rank 0"}]
    end(threads)
    assert found == [[0, 1]] * 2


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


def test_what_was_heard_cannot_be_used_again_or_sent_back(port: int) -> None:
    """A whole conversation is repeated, and rank 0's own proof comes back as a rank's."""
    found, threads = begun(port, 2, secret="right")
    greeting = hello(1, 2)

    with socket.create_connection(("127.0.0.1", port)) as sock:
        line = Line(sock, 5)
        line.send(greeting)
        challenge = line.receive()[0]
        line.send({"proof": challenge["proof"]})  # reflected
        assert "refused" in line.receive()[0]

    answer = {
        "proof": proof(b"right", "rank", greeting, challenge["challenge"])
    }  # as an eavesdropper heard it
    with socket.create_connection(("127.0.0.1", port)) as sock:
        line = Line(sock, 5)
        line.send(greeting)
        assert line.receive()[0]["challenge"] != challenge["challenge"]
        line.send(answer)  # replayed
        assert "refused" in line.receive()[0]
    end(threads)
    assert found == [[0, 1]] * 2


def test_what_only_claims_to_be_rank_0_is_found_out() -> None:
    """It has seen a challenge of the true rank 0 before, and repeats it; or it asks for no proof."""
    for reply, text in (
        ({"challenge": nonce(), "proof": nonce()}, "the secret differs: what listens at the rendezvous"),
        ({"welcome": [], "session": nonce()}, "rank 1 has a secret, what listens at the rendezvous has none"),
    ):
        with listen(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()) as ours:
            theirs, _ = listener.accept()
            with theirs:
                Line(theirs, 5).send(reply)
                with pytest.raises(TransportError, match=text):
                    await_welcome(Line(ours, 5), hello(1, 2), 5, b"right")


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
    with pytest.raises(ValueError, match="INCEPTIONN_SECRET is empty; give a secret or leave it out"):
        secret_of(None)
    with pytest.raises(ValueError, match="secret= is empty"):
        secret_of(b"")
    monkeypatch.delenv("INCEPTIONN_SECRET")
    file.unlink()
    with pytest.raises(ValueError, match="cannot be read: No such file or directory"):
        secret_of(None)


@pytest.mark.parametrize("mode", [0o640, 0o620, 0o644, 0o602, 0o604])
def test_a_secret_that_other_users_can_read_is_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, mode: int
) -> None:
    monkeypatch.delenv("INCEPTIONN_SECRET", raising=False)
    file = tmp_path / "secret"
    file.write_bytes(b"known")
    file.chmod(mode)
    monkeypatch.setenv("INCEPTIONN_SECRET_FILE", str(file))
    with pytest.warns(UserWarning, match="is open to other users of this host: chmod 600 .*secret$"):
        assert secret_of(None) == b"known"


def test_a_secret_of_another_type_is_refused_and_bytes_of_the_environment_are_those_of_a_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """``bytes(1234)`` would be 1234 zeros, which everybody knows."""
    wrong: Any
    for wrong in (1234, 0, True, ["a"], tmp_path):
        with pytest.raises(TypeError, match="secret must be str or bytes, not"):
            secret_of(wrong)
    raw = b"\xff\x80 no UTF-8"
    monkeypatch.delenv("INCEPTIONN_SECRET", raising=False)
    monkeypatch.setitem(os.environb, b"INCEPTIONN_SECRET", raw)
    assert secret_of(None) == raw


def test_a_group_by_the_environment(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INCEPTIONN_SECRET", "of all")
    found, threads = begun(port, 2)
    with socket.create_connection(("127.0.0.1", port)) as sock:
        line = Line(sock, 5)
        line.send(hello(1, 2, secret=False))
        assert "rank 1 has no secret" in line.receive()[0]["refused"]
    end(threads)
    assert found == [[0, 1]] * 2


def test_no_repr_shows_the_secret_and_that_of_a_half_made_transport_works() -> None:
    terms = Terms(0x28, None, 1.0, b"hunter2", "session")
    assert "hunter2" not in repr(terms)
    assert repr(TcpTransport.__new__(TcpTransport)) == "<TcpTransport, not connected>"
