# SPDX-License-Identifier: BSD-2-Clause
"""A connection between every two ranks of a TCP group. The higher rank connects to the lower one."""

import select
import socket
import struct
import time
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from ...system.text import LONGEST, printable
from ...tos.mark import tag
from ..base import PeerLost, TransportError, TransportTimeout, ranks_text
from .acceptor import Acceptor, accepted
from .line import Form, Line, checked, decoded, digest, whole
from .secret import nonce, proof, same
from .transport import TcpTransport

_TCP_USER_TIMEOUT = 18
_PORT = struct.Struct("<H")
_CALLER: Form = {"from": whole, "nonce": digest}
_NONCE: Form = {"nonce": digest}
_TOKEN: Form = {"token": digest}
_PAUSE = 0.05
"""Seconds until a connection is made again that the peer closed before it knew this rank."""


@dataclass(frozen=True)
class Terms:
    """The settings with which a rank makes its connections.

    ``host`` is the rank's own address, if its host has several. ``session`` is the group's random name,
    chosen by rank 0. ``tos`` is the mark on connections for floats.
    """

    tos: int
    host: str | None
    timeout: float
    secret: bytes = field(repr=False)
    session: str

    def token(self, purpose: str, accepts: int, connects: int, *nonces: str) -> str:
        """Return the token by which one end of a connection between two ranks identifies itself to the other.

        ``nonces`` are those of the rank that connects and of the one that accepts.
        """
        return proof(self.secret, purpose, self.session, accepts, connects, *nonces)


def mesh(
    transport: TcpTransport, hellos: list[dict[str, Any]], accepting: socket.socket, tagged: int, terms: Terms
) -> dict[int, socket.socket]:
    """Make this rank's connections by peer, for messages or, with ``tagged``, for floats.

    Other connections are dropped. Both ends of a connection for messages send each other a nonce and then a
    token; the rank that connects sends its own first. A connection for floats may pass NICs, so it carries no
    token. It is recognised by its address and port, which the peer has sent as a message.
    """
    socks: dict[int, socket.socket] = {}
    try:
        for peer in range(transport.rank):
            where = hellos[peer]["host"], hellos[peer]["ports"][tagged]
            try:
                socks[peer] = (_dial_floats if tagged else _dial)(transport, peer, where, terms)
            except (OSError, EOFError, ValueError) as error:
                reason = getattr(error, "strerror", None) or error
                place = printable(f"{where[0][:LONGEST]}:{where[1]}")
                raise PeerLost(
                    f"rank {transport.rank} cannot connect to rank {peer} at {place}: {reason}"
                ) from error
        (_accept_floats if tagged else _accept)(transport, accepting, socks, terms)
        for peer, sock in socks.items():
            try:
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                sock.setsockopt(socket.IPPROTO_TCP, _TCP_USER_TIMEOUT, int(terms.timeout * 1000))
                if tagged:
                    tag(sock, terms.tos)
            except OSError as error:
                raise PeerLost(f"rank {peer} is lost: {error.strerror or error}") from error
    except BaseException:
        for sock in socks.values():
            sock.close()
        raise
    return socks


def _socket(where: tuple[str, int], source: str | None, timeout: float) -> tuple[socket.socket, Any]:
    """Make a socket bound to the address ``source``, and the address to connect to."""
    family, kind, protocol, _, peer = socket.getaddrinfo(*where, type=socket.SOCK_STREAM)[0]
    sock = socket.socket(family, kind, protocol)
    try:
        sock.settimeout(timeout)
        if source:
            sock.bind((source, 0))
    except BaseException:
        sock.close()
        raise
    return sock, peer


def _dial(transport: TcpTransport, peer: int, where: tuple[str, int], terms: Terms) -> socket.socket:
    deadline = time.monotonic() + terms.timeout
    while True:
        sock, address = _socket(where, terms.host, terms.timeout)
        try:
            sock.connect(address)
            try:
                _identify(Line(sock, terms.timeout), transport.rank, peer, terms, deadline)
            except (EOFError, ConnectionError):  # a flood of strangers may have replaced this connection
                if time.monotonic() + _PAUSE > deadline:
                    raise
            else:
                return sock
        except BaseException:
            sock.close()
            raise
        sock.close()
        transport._control.pump()
        time.sleep(_PAUSE)


def _identify(line: Line, rank: int, peer: int, terms: Terms, deadline: float) -> None:
    """Show the peer a token, and check the peer's."""
    sent = nonce()
    line.send({"from": rank, "nonce": sent})
    while not line.lines:
        line.sock.settimeout(max(0.001, deadline - time.monotonic()))
        line.fill()
    theirs = checked(decoded(line.lines.popleft(), stranger=True), _NONCE)["nonce"]
    line.send({"token": terms.token("connects", peer, rank, sent, theirs)})
    expected, said = terms.token("accepts", peer, rank, sent, theirs), b""
    while len(said) < len(expected):  # not a byte more, since messages follow
        line.sock.settimeout(max(0.001, deadline - time.monotonic()))
        if not (more := line.sock.recv(len(expected) - len(said))):
            raise EOFError("it closed the connection")
        said += more
    if not same(expected, said.decode("latin-1")):
        raise ValueError("what listens there does not belong to the group")


def _accept(
    transport: TcpTransport, accepting: socket.socket, socks: dict[int, socket.socket], terms: Terms
) -> None:
    deadline, rank = time.monotonic() + terms.timeout, transport.rank
    expected = set(range(rank + 1, transport.size))
    asked: WeakKeyDictionary[Line, tuple[int, str, str]] = WeakKeyDictionary()
    with Acceptor(accepting, transport._control) as acceptor:

        def take(line: Line, said: dict[str, Any]) -> None:
            if line not in asked:
                peer, sent = checked(said, _CALLER)["from"], nonce()
                line.send({"nonce": sent})
                asked[line] = peer, said["nonce"], sent
                acceptor.mark_challenged(line)
                return
            peer, *nonces = asked.pop(line)
            token = terms.token("connects", rank, peer, *nonces)
            if peer not in expected or not same(token, checked(said, _TOKEN)["token"]):
                raise ValueError("not one of the group")
            line.send_encoded(terms.token("accepts", rank, peer, *nonces).encode())
            acceptor.admit(line)
            socks[peer] = line.sock
            expected.remove(peer)

        while expected:
            for line, said in acceptor.receive(deadline):
                try:
                    take(line, said)
                except (OSError, ValueError):
                    acceptor.reject(line)
            _check(transport, expected, deadline)


def _dial_floats(transport: TcpTransport, peer: int, where: tuple[str, int], terms: Terms) -> socket.socket:
    # The peer recognises this rank by this address.
    source = transport.sockets()[peer].getsockname()[0]
    sock, address = _socket(where, source, terms.timeout)
    try:
        tag(sock, terms.tos, peer=address)
        transport.send(peer, _PORT.pack(sock.getsockname()[1]))
        sock.connect(address)
    except BaseException:
        sock.close()
        raise
    return sock


def _accept_floats(
    transport: TcpTransport, accepting: socket.socket, socks: dict[int, socket.socket], terms: Terms
) -> None:
    deadline = time.monotonic() + terms.timeout
    expected: dict[tuple[str, int], int] = {}
    for peer in range(transport.rank + 1, transport.size):
        port = bytearray(_PORT.size)
        if transport.recv_into(peer, port) != _PORT.size:
            raise TransportError(f"rank {peer} did not say where its connection for floats comes from")
        try:
            address = transport.sockets()[peer].getpeername()[0]
        except OSError as error:  # it vanished after its message
            raise PeerLost(f"rank {peer} is lost: {error.strerror or error}") from error
        place = address, *_PORT.unpack(port)
        if place in expected:
            raise TransportError(f"rank {peer} announced the address and port of rank {expected[place]}")
        expected[place] = peer
    accepting.setblocking(False)
    poll = select.poll()
    poll.register(accepting, select.POLLIN)
    poll.register(transport._control.fileno(), select.POLLIN)
    while expected:
        poll.poll(max(0.0, deadline - time.monotonic()) * 1000)
        transport._control.pump()
        if (found := accepted(accepting)) is not None:
            sock, source = found
            peer = expected.pop((source[0], source[1]), -1)
            if peer < 0:
                sock.close()
            else:
                socks[peer] = sock
        _check(transport, expected.values(), deadline)


def _check(transport: TcpTransport, expected: Any, deadline: float) -> None:
    """Raise `TransportTimeout` if ranks are still expected after the deadline."""
    if expected and time.monotonic() >= deadline:
        raise TransportTimeout(f"{ranks_text(expected)} did not connect to rank {transport.rank}")
