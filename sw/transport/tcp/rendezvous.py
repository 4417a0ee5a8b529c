# SPDX-License-Identifier: BSD-2-Clause
"""Rank 0's side of the rendezvous. All ranks connect to rank 0, which tells each about the others.

Each rank and rank 0 prove to each other that they have the group's secret; the rank comes first, so that a
stranger learns nothing. Every proof is an HMAC over what was said so far, with a nonce of the end that checks
it. Without a secret its key is empty, which proves nothing, and the messages are the same:

========  =============  ==============================================================================
from      object         content
========  =============  ==============================================================================
rank      hello          rank, size, job, ports, nonce ...
rank 0    challenge      rank 0's nonce
rank      proof          "rank", hello, challenge
rank 0    proof          "rank 0", hello, challenge
rank 0    welcome        session, address, digest of the next object; "welcome" and a proof over them
rank 0    ranks          the hellos of all ranks
========  =============  ==============================================================================
"""

import hashlib
import json
import socket
import time
from contextlib import suppress
from typing import Any
from weakref import WeakKeyDictionary

from ...system.address import unspecified
from ...tos.mark import tag
from ..base import TransportError, ranks_text
from .acceptor import BACKLOG, Acceptor
from .line import Form, Line, checked, digest, shortened, text, whole
from .secret import differs, missing, nonce, proof, same

GRACE = 1.0
"""Seconds that rank 0 still waits for further ranks, to tell them too, once the group cannot form."""
_MOST_LISTED = 4
"""Most refused connections whose reasons an error lists."""
_REFUSAL = 600
"""Most characters of a reason; escaped, they fit an object that a rank accepts from an unknown process."""

Address = tuple[str, int]
Hello = dict[str, Any]


def _ports(value: Any) -> bool:
    return (
        isinstance(value, list) and len(value) in (1, 2) and all(whole(p) and 0 < p < 1 << 16 for p in value)
    )


_ANY_HELLO: Form = {"rank": whole, "protocol": whole, "job": text}
"""The fields of a hello in every version of the protocol."""
HELLO: Form = {
    **_ANY_HELLO, "size": whole, "nic": text, "tos": whole, "host": text, "ports": _ports, "nonce": digest,
    "secret": lambda value: isinstance(value, bool),
}  # fmt: skip
CHALLENGE: Form = {"challenge": digest}
PROOF: Form = {"proof": digest}
WELCOME: Form = {"welcome": digest, "session": digest, "host": text, "proof": digest}
REFUSED: Form = {"refused": text}


def listen(address: Address, backlog: int = BACKLOG, tos: int | None = None) -> socket.socket:
    """Open a listening socket, which with ``tos`` has this mark before its first connection can come.

    Raises `TransportError` naming the address if it cannot be opened.
    """
    host, port = address
    try:
        family, kind, protocol, _, where = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        sock = socket.socket(family, kind, protocol)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise TransportError(f"cannot listen at {host}:{port}: {reason}") from error
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if tos is not None:
            tag(sock, tos)
        sock.bind(where)
        sock.listen(backlog)
    except OSError as error:
        sock.close()
        raise TransportError(f"cannot listen at {host}:{port}: {error.strerror}") from error
    return sock


class _Gathering:
    """The ranks that have joined so far, as rank 0 sees them; ``hello`` is rank 0's own."""

    def __init__(self, acceptor: Acceptor, hello: Hello, secret: bytes) -> None:
        self.acceptor, self.hello, self.secret = acceptor, hello, secret
        self.joined: list[tuple[Line, Hello, str]] = []
        """The line of each rank, its hello, and the challenge that it has answered."""
        self.refused: list[str] = []
        self.wrong: str | None = None
        """Why the group cannot form."""
        self._asked: WeakKeyDictionary[Line, tuple[Hello, str]] = WeakKeyDictionary()
        """Candidates that owe a proof: the hello of each, and its challenge."""

    def take(self, line: Line, said: dict[str, Any]) -> None:
        """Handle a candidate's object.

        Raises ``ValueError`` or ``OSError`` if the candidate must be rejected.
        """
        if line in self._asked:
            self._hear_proof(line, checked(said, PROOF)["proof"], *self._asked.pop(line))
            return
        hello = checked(said, _ANY_HELLO)
        rank = hello["rank"]
        if strange := self._differs(hello, "protocol"):  # it may lack the proof
            if self.secret or hello["job"] != self.hello["job"]:
                self._refuse(line, strange)
            else:
                self._join(line, hello, "")
            return
        hello = checked(said, HELLO)
        if hello["secret"] != bool(self.secret):
            self._refuse(line, missing(rank) if self.secret else f"rank {rank} has a secret, rank 0 has none")
            return
        challenge = nonce()
        line.send({"challenge": challenge})
        self._asked[line] = hello, challenge
        self.acceptor.mark_challenged(line)

    def _hear_proof(self, line: Line, shown: str, hello: Hello, challenge: str) -> None:
        rank = hello["rank"]
        if not same(proof(self.secret, "rank", hello, challenge), shown):
            self._refuse(line, differs(f"rank {rank}", "rank 0"))
        elif strange := self._differs(hello, "job"):
            # Without a secret, the true job is for rank 0's user only.
            refusal = f"job differs: rank 0 has another one than rank {rank}, {hello['job']!r:.99}"
            self._refuse(line, strange, strange if self.secret else refusal)
        else:
            line.send({"proof": proof(self.secret, "rank 0", hello, challenge)})
            self._join(line, hello, challenge)

    def _differs(self, hello: Hello, word: str) -> str | None:
        if hello.get(word) == self.hello[word]:
            return None
        theirs = f"rank {hello['rank']} has {hello.get(word)!r:.99}"
        return f"{word} differs: rank 0 has {self.hello[word]!r}, {theirs}"

    def _refuse(self, line: Line, reason: str, told: str | None = None) -> None:
        if len(self.refused) < _MOST_LISTED:
            self.refused.append(reason)
        line.send({"refused": shortened(told or reason, _REFUSAL)})
        self.acceptor.reject(line)

    def _join(self, line: Line, hello: Hello, challenge: str) -> None:
        rank, size = hello["rank"], self.hello["size"]
        wrong = self._differs(hello, "protocol") or self._differs(hello, "size")
        if not wrong and rank in (other["rank"] for _, other, _ in self.joined):
            wrong = f"rank {rank} joined twice"
        if not wrong and not 1 <= rank < size:
            wrong = f"rank {rank} is not one of 1..{size - 1}"
        self.wrong = self.wrong or wrong
        self.acceptor.admit(line)
        self.joined.append((line, hello, challenge))


def gather(
    listener: socket.socket, hello: Hello, timeout: float, secret: bytes = b"", name: str | None = None
) -> tuple[dict[int, Line], list[Hello], str]:
    """Wait until all ranks have joined, and tell each about the others.

    ``hello`` is rank 0's own. ``name`` is that by which the listener was opened, for the error about ranks
    that do not come: they may have found another address by it. Returns the other ranks' lines, all ranks'
    hellos and the session.

    If "protocol" or "size" differ, or a rank joins twice, every rank is told, and this raises a
    `TransportError` that names the values. A rank with another job, or without the secret, is told so and
    refused. Other connections are dropped.
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
        absent = sorted(set(range(1, size)) - {theirs["rank"] for _, theirs, _ in notes.joined})
        here, port = listener.getsockname()[:2]
        place = "" if name in (None, here) else f" at {name}, which is {here}, port {port},"
        wrong = f"{ranks_text(absent)} did not reach the rendezvous{place} within {timeout:g} s"
        if notes.refused:
            wrong += f"; refused: {'; '.join(notes.refused)}"
    if wrong is not None:
        for line, _, _ in notes.joined:
            with suppress(OSError):
                line.send({"refused": shortened(wrong, _REFUSAL)})
            line.sock.close()
        raise TransportError(wrong)
    hellos = [hello, *sorted((theirs for _, theirs, _ in notes.joined), key=lambda theirs: theirs["rank"])]
    session = nonce()
    _welcome(notes, hellos, session)
    return {theirs["rank"]: line for line, theirs, _ in notes.joined}, hellos, session


def _welcome(notes: _Gathering, hellos: list[Hello], session: str) -> None:
    """Send all ranks' hellos to each, after an object that proves that they are rank 0's."""
    ranks = json.dumps({"ranks": hellos}, separators=(",", ":")).encode()
    said = hashlib.sha256(ranks).hexdigest()
    for line, hello, challenge in notes.joined:
        with suppress(OSError):  # `Control` detects lost ranks and tells the others
            # Where rank 0 listens at all addresses of its host, a rank must not trust the address that it
            # has reached: it may be that of a relay.
            host = hellos[0]["host"]
            if unspecified(host):
                host = line.sock.getsockname()[0].removeprefix("::ffff:")
            shown = proof(notes.secret, "welcome", hello, challenge, session, host, said)
            welcome = {"welcome": said, "session": session, "host": host, "proof": shown}
            line.send_encoded(json.dumps(welcome).encode() + b"\n" + ranks + b"\n")
