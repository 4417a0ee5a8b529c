# SPDX-License-Identifier: BSD-2-Clause
"""How the ranks of a TCP group find each other. All connect to rank 0, which tells each about the others.

If the group has a secret, rank 0 and each rank prove to each other that they have it before either trusts the
other. The messages are ``hello`` with a nonce, ``challenge`` with a nonce and rank 0's proof, and the rank's
``proof``.
"""

from __future__ import annotations

import socket
import time
from contextlib import suppress
from typing import Any
from weakref import WeakKeyDictionary

from ...system.address import unspecified
from ...system.text import printable
from ..base import PeerLost, TransportError, TransportTimeout, ranks_text
from .acceptor import BACKLOG, Acceptor
from .line import Form, Line, anything, checked, decoded, digest, shortened, text, whole
from .secret import FILE_VARIABLE, VARIABLE, nonce, proof, same

GRACE = 1.0
"""Seconds that rank 0 still waits for further ranks, to tell them too, once the group cannot form."""
_MOST_LISTED = 4
"""Most refused connections whose reasons an error lists."""

Address = tuple[str, int]
Hello = dict[str, Any]


def _ports(value: Any) -> bool:
    return (
        isinstance(value, list) and len(value) in (1, 2) and all(whole(p) and 0 < p < 1 << 16 for p in value)
    )


_ANY_HELLO: Form = {"rank": whole, "protocol": whole, "job": text}
"""The fields of a hello in every version of the protocol."""
_HELLO: Form = {
    **_ANY_HELLO, "size": whole, "nic": text, "tos": whole, "host": text, "ports": _ports, "nonce": digest,
    "secret": lambda value: isinstance(value, bool),
}  # fmt: skip
_CHALLENGE: Form = {"challenge": digest, "proof": digest}
_PROOF: Form = {"proof": digest}
_WELCOME: Form = {"welcome": anything, "session": digest}


def listen(address: Address, backlog: int = BACKLOG) -> socket.socket:
    """A listening socket. Raises `TransportError` naming the address if it cannot be opened."""
    host, port = address
    try:
        family, kind, protocol, _, where = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        sock = socket.socket(family, kind, protocol)
    except OSError as error:
        raise TransportError(f"cannot listen at {host}:{port}: {error.strerror or error}") from error
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(where)
        sock.listen(backlog)
    except OSError as error:
        sock.close()
        raise TransportError(f"cannot listen at {host}:{port}: {error.strerror}") from error
    return sock


class _Gathering:
    """The ranks that have joined so far, as rank 0 sees them; ``own`` is rank 0's hello."""

    def __init__(self, acceptor: Acceptor, own: Hello, secret: bytes) -> None:
        self.acceptor, self.own, self.secret = acceptor, own, secret
        self.joined: list[tuple[Line, Hello]] = []
        self.refused: list[str] = []
        self.wrong: str | None = None
        """Why the group cannot form."""
        self._asked: WeakKeyDictionary[Line, tuple[Hello, str]] = WeakKeyDictionary()
        """Candidates that owe a proof: the hello of each, and the expected proof."""

    def take(self, line: Line, said: dict[str, Any]) -> None:
        """Handles a candidate's object.

        Raises ``ValueError`` or ``OSError`` if the candidate must be rejected.
        """
        if line in self._asked:
            hello, expected = self._asked.pop(line)
            if same(expected, checked(said, _PROOF)["proof"]):
                self._join(line, hello)
            else:
                self._refuse(line, f"the secret differs: rank {hello['rank']} has another one than rank 0")
            return
        hello = checked(said, _ANY_HELLO)
        rank = hello["rank"]
        strange = self._differs(hello, "job")
        if not strange and hello["protocol"] == self.own["protocol"]:
            hello = checked(said, _HELLO)
            if hello["secret"] != bool(self.secret):
                strange = no_secret(rank) if self.secret else f"rank {rank} has a secret, rank 0 has none"
        elif not strange and self.secret:
            strange = self._differs(hello, "protocol")  # another protocol may lack the proof
        if strange:
            self._refuse(line, strange)
        elif self.secret:
            challenge = nonce()
            line.send({"challenge": challenge, "proof": proof(self.secret, "rank 0", hello, challenge)})
            self._asked[line] = hello, proof(self.secret, "rank", hello, challenge)
            self.acceptor.mark_challenged(line)
        else:
            self._join(line, hello)

    def _differs(self, hello: Hello, word: str) -> str | None:
        if hello.get(word) == self.own[word]:
            return None
        theirs = f"rank {hello['rank']} has {hello.get(word)!r:.99}"
        return f"{word} differs: rank 0 has {self.own[word]!r}, {theirs}"

    def _refuse(self, line: Line, reason: str) -> None:
        if len(self.refused) < _MOST_LISTED:
            self.refused.append(reason)
        line.send({"refused": shortened(reason)})
        self.acceptor.reject(line)

    def _join(self, line: Line, hello: Hello) -> None:
        rank, size = hello["rank"], self.own["size"]
        wrong = self._differs(hello, "protocol") or self._differs(hello, "size")
        if not wrong and rank in (other["rank"] for _, other in self.joined):
            wrong = f"rank {rank} joined twice"
        if not wrong and not 1 <= rank < size:
            wrong = f"rank {rank} is not one of 1..{size - 1}"
        self.wrong = self.wrong or wrong
        self.acceptor.admit(line)
        self.joined.append((line, hello))


def gather(
    listener: socket.socket, hello: Hello, timeout: float, secret: bytes = b""
) -> dict[int, tuple[Line, Hello]]:
    """Rank 0's side of the rendezvous. Returns the other ranks' lines and hellos once all have joined.

    ``hello`` is rank 0's own. If "protocol" or "size" differ, or a rank joins twice, every rank is told, and
    this raises a `TransportError` that names the values. A rank with another job, or without the secret, is
    told so and refused. Other connections are dropped.
    """
    size, deadline = hello["size"], time.monotonic() + timeout
    with Acceptor(listener) as acceptor:
        notes = _Gathering(acceptor, hello, secret)
        while len(notes.joined) < size - 1 and time.monotonic() < deadline:
            for line, said in acceptor.receive(deadline):
                good = notes.wrong is None
                try:
                    notes.take(line, said)
                except (OSError, ValueError):
                    acceptor.reject(line)
                if good and notes.wrong is not None:
                    deadline = min(deadline, time.monotonic() + GRACE)
    wrong = notes.wrong
    if wrong is None and len(notes.joined) < size - 1:
        missing = sorted(set(range(1, size)) - {theirs["rank"] for _, theirs in notes.joined})
        wrong = f"{ranks_text(missing)} did not reach the rendezvous within {timeout:g} s"
        if notes.refused:
            wrong += f"; refused: {'; '.join(notes.refused)}"
    if wrong is not None:
        for line, _ in notes.joined:
            with suppress(OSError):
                line.send({"refused": shortened(wrong)})
            line.sock.close()
        raise TransportError(wrong)
    return {theirs["rank"]: (line, theirs) for line, theirs in notes.joined}


def no_secret(rank: int) -> str:
    """The message for a rank without the secret."""
    return f"rank {rank} has no secret, rank 0 has one: give secret=, or set {VARIABLE} or {FILE_VARIABLE}"


def _left(deadline: float) -> float:
    return max(0.0, deadline - time.monotonic())


def join(address: Address, timeout: float, source: str | None) -> Line:
    """The other ranks' side: connects, from the address ``source`` if given.

    Tries again until rank 0 listens. Raises `TransportTimeout` if it never does.
    """
    deadline = time.monotonic() + timeout
    pause = 0.005
    while True:
        try:
            return Line(_connected(address, max(0.01, _left(deadline)), source), timeout)
        except socket.gaierror as error:
            raise TransportError(f"no such host: {address[0]}") from error
        except OSError as error:
            if time.monotonic() + pause > deadline:
                here = f" ({address[0]} is this host: give the address of rank 0's host)"
                raise TransportTimeout(
                    f"rank 0 does not answer at {address[0]}:{address[1]}: {error.strerror or error}"
                    f"{here if unspecified(address[0]) else ''}"
                ) from error
        time.sleep(pause)
        pause = min(2 * pause, 0.2)


def _connected(address: Address, timeout: float, source: str | None) -> socket.socket:
    where = None if source is None else (source, 0)
    sock = socket.create_connection(address, timeout, source_address=where)
    try:
        # A connection to an ephemeral port without a listener may connect to itself.
        if sock.getsockname() == sock.getpeername():
            raise ConnectionRefusedError("nobody listens")
    except OSError:
        sock.close()
        raise
    return sock


def await_welcome(line: Line, hello: Hello, timeout: float, secret: bytes = b"") -> tuple[list[Hello], str]:
    """Sends a hello to rank 0 and waits until the group has formed.

    Returns all ranks' hellos and the session. Raises `TransportError` with rank 0's reason if the group does
    not form, or if rank 0 lacks the secret. Raises `PeerLost` or `TransportTimeout` if rank 0 sends nothing.
    """
    deadline = time.monotonic() + timeout + GRACE  # leaves rank 0 time to say which ranks are missing
    rank, there = hello["rank"], "what listens at the rendezvous"
    try:
        line.send(hello)
        said = _said(line, deadline)
        if "challenge" in said:
            checked(said, _CHALLENGE)
            if not secret:
                raise TransportError(no_secret(rank))
            if not same(proof(secret, "rank 0", hello, said["challenge"]), said["proof"]):
                raise TransportError(f"the secret differs: {there} has another one than rank {rank}")
            line.send({"proof": proof(secret, "rank", hello, said["challenge"])})
            said = _said(line, deadline)
        elif secret and "refused" not in said:
            raise TransportError(f"rank {rank} has a secret, {there} has none")
        if "refused" in said:
            raise TransportError(printable(checked(said, {"refused": text})["refused"]))
        welcome = checked(said, _WELCOME)["welcome"]
        if not isinstance(welcome, list) or len(welcome) != hello["size"]:
            raise ValueError("the welcome has another number of ranks")
        hellos = [checked(theirs, _HELLO) if isinstance(theirs, dict) else {} for theirs in welcome]
        if [theirs.get("rank") for theirs in hellos] != list(range(hello["size"])):
            raise ValueError("the welcome has other ranks")
        line.sock.settimeout(timeout)
    except TimeoutError as error:
        raise TransportTimeout(f"rank 0 did not form the group within {timeout:g} s") from error
    except (OSError, EOFError, ValueError) as error:
        raise PeerLost(f"rank 0 is lost, or {there} is not rank 0: {error!r}") from error
    return hellos, said["session"]


def _said(line: Line, deadline: float) -> dict[str, Any]:
    """Waits for the next object from rank 0."""
    while not line.lines:
        line.sock.settimeout(max(0.001, _left(deadline)))
        line.fill()
    return decoded(line.lines.popleft())
