# SPDX-License-Identifier: BSD-2-Clause
"""How a group over TCP forms: rendezvous, a connection between every two ranks, the question to the NICs."""

from __future__ import annotations

import socket
import time
from typing import TYPE_CHECKING, Any

from inceptionn.tos import tag
from inceptionn.transport import probe
from inceptionn.transport.base import DEFAULT_TIMEOUT, PeerLost, TransportError, TransportTimeout, name_of
from inceptionn.transport.channel import Channel
from inceptionn.transport.control import PROTOCOL, Control, Line
from inceptionn.transport.rendezvous import await_welcome, gather, join, listen, parse_address
from inceptionn.transport.tcp import TcpTransport
from inceptionn.wire import DEFAULT_TOS

if TYPE_CHECKING:
    from inceptionn.codec import Codec

DEFAULT_PORT = 29520
_TCP_USER_TIMEOUT = 18


def connect(
    rank: int,
    size: int,
    rendezvous: str = f"127.0.0.1:{DEFAULT_PORT}",
    *,
    timeout: float = DEFAULT_TIMEOUT,
    nic: bool | None | Codec = None,
    tos: int = DEFAULT_TOS,
    host: str | None = None,
    job: str = "",
    listener: socket.socket | None = None,
) -> TcpTransport:
    """Joins a group and returns this rank's transport once every rank is connected to every other.

    ``rendezvous`` is ``HOST:PORT`` (``[ADDRESS]:PORT`` for IPv6) of rank 0, which listens there
    (``listener``: a socket that listens already). ``timeout``: seconds for all to come, and later without
    progress in any wait. ``host``: this rank's own address, where it has several. ``job``: must be the same
    at all ranks; keeps groups apart that might meet on a port.

    ``nic``: whether to use NICs with the engines. None asks them: floats are sent over marked connections
    between all pairs, and if they come back through a codec, at every pair the same, ``transport.nic_codec``
    is that codec. False makes no marked connections. True asks, and raises where the answer is no. A `Codec`
    is taken for the answer without asking.

    `TransportError`, at all ranks, for a port in use, ranks that disagree on size, job, protocol or ``nic``
    (naming both values), or a rank that is there twice; `TransportTimeout` for one that does not come.
    """
    if size < 1 or not 0 <= rank < size:
        raise ValueError(f"rank must be one of 0..{size - 1}, not {rank!r}")
    address = parse_address(rendezvous)
    wish = (
        "ask" if nic is None else {False: "no", True: "must"}[nic] if isinstance(nic, bool) else name_of(nic)
    )
    hello: dict[str, Any] = {
        "rank": rank, "size": size, "protocol": PROTOCOL, "job": job, "nic": wish, "tos": tos,
    }  # fmt: skip
    marked = wish != "no"
    opened: list[socket.socket] = []
    try:
        lines, hellos, accepting = _rendezvous(address, hello, timeout, host, listener, marked, opened)
        transport = TcpTransport(rank, size, timeout, Control(rank, size, lines), {}, {})
    except BaseException:
        for sock in opened:
            sock.close()
        raise
    try:
        for word in ("nic", "tos"):
            for other, theirs in enumerate(hellos):
                if theirs[word] != hellos[0][word]:
                    raise TransportError(
                        f"{word} differs: rank 0 has {hellos[0][word]!r}, rank {other} has {theirs[word]!r}"
                    )
        for tagged in range(len(accepting)):
            socks = _mesh(transport, hellos, accepting[tagged], tagged, tos, host, timeout)
            for peer, sock in socks.items():
                transport._channels[tagged][peer] = Channel(sock, peer, framed=not tagged)
        if nic is not None and not isinstance(nic, bool):
            transport.nic_codec = nic
        elif marked:
            transport.nic_codec = probe.agree(transport)
            if transport.nic_codec is None:
                transport._drop_floats()
                if nic:
                    raise TransportError("no NIC with the engines between every pair of ranks")
    except BaseException as error:
        transport.abort(str(error))
        raise
    finally:
        for sock in opened:
            sock.close()
    return transport


def _rendezvous(
    address: tuple[str, int],
    hello: dict[str, Any],
    timeout: float,
    host: str | None,
    listener: socket.socket | None,
    marked: bool,
    opened: list[socket.socket],
) -> tuple[dict[int, Line], list[dict[str, Any]], list[socket.socket]]:
    """Control lines, every rank's hello, and this rank's listening sockets (messages, floats)."""
    rank, size = hello["rank"], hello["size"]
    if size == 1:
        return {}, [hello], []
    line = None
    if rank == 0:
        if listener is None:
            listener = listen(address, size)
        opened.append(listener)
        own = host or listener.getsockname()[0]
        if own in ("0.0.0.0", "::"):
            own = address[0]
    else:
        line = join(address, timeout, host)
        opened.append(line.sock)
        own = line.sock.getsockname()[0]
    accepting = []
    for tagged in range(1 + marked):
        sock = listen((own, 0), size)
        opened.append(sock)
        if tagged:
            tag(sock, hello["tos"])
        accepting.append(sock)
    hello["ports"] = [sock.getsockname()[1] for sock in accepting]
    hello["host"] = own
    if line is None:
        assert listener is not None
        joined = gather(listener, hello, timeout)
        hellos = [hello, *(joined[other][1] for other in range(1, size))]
        lines = {other: joined[other][0] for other in range(1, size)}
        for other in lines.values():
            other.send({"welcome": hellos})
    else:
        hellos = await_welcome(line, hello, timeout)
        lines = {0: line}
        opened.remove(line.sock)
    return lines, hellos, accepting


def _mesh(
    transport: TcpTransport,
    hellos: list[dict[str, Any]],
    accepting: socket.socket,
    tagged: int,
    tos: int,
    host: str | None,
    timeout: float,
) -> dict[int, socket.socket]:
    """A connection to every other rank; the one with the higher rank connects.

    Nothing may be said on a connection for floats, so the accepting side knows a peer by its address and
    port, which it was told over the control connections. Strangers are dropped.
    """
    rank, deadline = transport.rank, time.monotonic() + timeout
    socks: dict[int, socket.socket] = {}
    mine: dict[str, list[Any]] = {}
    try:
        for peer in range(rank):
            socks[peer] = _dial(
                (hellos[peer]["host"], hellos[peer]["ports"][tagged]), tagged, tos, host, timeout
            )
            mine[str(peer)] = list(socks[peer].getsockname()[:2])
        expected = {
            tuple(theirs[str(rank)]): peer
            for peer, theirs in enumerate(transport.exchange(mine))
            if peer > rank
        }
        while expected:
            accepting.settimeout(max(0.001, deadline - time.monotonic()))
            sock, source = accepting.accept()
            if source[:2] in expected:
                socks[expected.pop(source[:2])] = sock
            else:
                sock.close()
    except TimeoutError as error:
        _close(socks)
        raise TransportTimeout(f"ranks {sorted(expected.values())} did not connect to rank {rank}") from error
    except OSError as error:
        _close(socks)
        raise PeerLost(f"rank {rank} cannot connect to rank {peer}: {error.strerror or error}") from error
    except BaseException:
        _close(socks)
        raise
    for sock in socks.values():
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.IPPROTO_TCP, _TCP_USER_TIMEOUT, int(timeout * 1000))
        if tagged:
            tag(sock, tos)
    return socks


def _dial(address: tuple[str, int], tagged: int, tos: int, host: str | None, timeout: float) -> socket.socket:
    family, kind, protocol, _, where = socket.getaddrinfo(*address, type=socket.SOCK_STREAM)[0]
    sock = socket.socket(family, kind, protocol)
    try:
        sock.settimeout(timeout)
        if host:
            sock.bind((host, 0))
        if tagged:
            tag(sock, tos, peer=where)
        sock.connect(where)
    except BaseException:
        sock.close()
        raise
    return sock


def _close(socks: dict[int, socket.socket]) -> None:
    for sock in socks.values():
        sock.close()
