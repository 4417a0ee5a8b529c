# SPDX-License-Identifier: BSD-2-Clause
"""How the ranks of a TCP group find each other: all come to rank 0, which tells each who the others are."""

from __future__ import annotations

import select
import socket
import time
from contextlib import suppress
from typing import Any

from inceptionn.transport.base import PeerLost, TransportError, TransportTimeout
from inceptionn.transport.control import Line

HELLO_BYTES = 1 << 16
"""A stranger on the rendezvous port is heard no further than this."""
GRACE = 1.0
"""Seconds that rank 0 waits for further ranks when it knows that the group cannot form, to tell them too."""

Address = tuple[str, int]
Hello = dict[str, Any]


def parse_address(text: str) -> tuple[str, int]:
    """Host and port of ``HOST:PORT`` or ``[ADDRESS]:PORT``; ``ValueError`` ending with the text otherwise."""
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isascii() or not port.isdecimal() or int(port) > 65535:
        raise ValueError(f"an address is HOST:PORT, not {text!r}")
    return host.removeprefix("[").removesuffix("]"), int(port)


def listen(address: Address, backlog: int, *, reuse_port: bool = False) -> socket.socket:
    """A listening socket; `TransportError` naming the address where it cannot be had."""
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


def gather(listener: socket.socket, hello: Hello, timeout: float) -> dict[int, tuple[Line, Hello]]:
    """Rank 0's side: the other ranks' lines and hellos, once all have come.

    ``hello`` is rank 0's own; "protocol", "size" and "job" must be equal in all. Otherwise, and for a rank
    that comes twice, every rank is told, and this raises, a `TransportError` with both values. Strangers on
    the port are dropped.
    """
    size, deadline = hello["size"], time.monotonic() + timeout
    come: list[tuple[Line, Hello]] = []
    guests: dict[int, Line] = {}
    wrong: str | None = None
    poll = select.poll()
    poll.register(listener, select.POLLIN)
    while len(come) < size - 1 and (ready := poll.poll(_left(deadline) * 1000)):
        for fd, _ in ready:
            if fd == listener.fileno():
                sock, _ = listener.accept()
                guests[sock.fileno()] = Line(sock, timeout)
                poll.register(sock, select.POLLIN)
                continue
            try:
                theirs = _hello(guests[fd])
            except (OSError, EOFError, ValueError):
                poll.unregister(fd)
                guests.pop(fd).sock.close()
                continue
            if theirs is None:
                continue
            poll.unregister(fd)
            reason = _objection(hello, theirs, [other["rank"] for _, other in come])
            come.append((guests.pop(fd), theirs))
            if reason and wrong is None:
                wrong = reason
                deadline = min(deadline, time.monotonic() + GRACE)
    if wrong is None and len(come) < size - 1:
        missing = sorted(set(range(1, size)) - {theirs["rank"] for _, theirs in come})
        wrong = f"ranks {', '.join(map(str, missing))} did not come to the rendezvous in {timeout:g} s"
    for line in guests.values():
        line.sock.close()
    if wrong is not None:
        for line, _ in come:
            with suppress(OSError):
                line.send({"refused": wrong})
            line.sock.close()
        raise TransportError(wrong)
    return {theirs["rank"]: (line, theirs) for line, theirs in come}


def _left(deadline: float) -> float:
    return max(0.0, deadline - time.monotonic())


def _hello(line: Line) -> Hello | None:
    """What a guest says, None if it is not complete yet; ``ValueError`` if it is no hello."""
    said = line.receive(HELLO_BYTES)
    if not said:
        return None
    hello = said[0]
    if not isinstance(hello, dict) or not isinstance(hello.get("rank"), int):
        raise ValueError("not a hello")
    return hello


def _objection(own: Hello, theirs: Hello, there: list[int]) -> str | None:
    """Why a rank cannot be one of the group."""
    rank = theirs["rank"]
    for word in ("protocol", "size", "job"):
        if theirs.get(word) != own[word]:
            return f"{word} differs: rank 0 has {own[word]!r}, rank {rank} has {theirs.get(word)!r}"
    if rank in there:
        return f"rank {rank} came twice"
    return None if 1 <= rank < own["size"] else f"rank {rank} is not one of 1..{own['size'] - 1}"


def join(address: Address, timeout: float, source: str | None) -> Line:
    """The other ranks' side: connects, from the address ``source`` if given.

    Tries again until rank 0 listens; `TransportTimeout` if it never does.
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
                raise TransportTimeout(
                    f"rank 0 does not answer at {address[0]}:{address[1]}: {error.strerror or error}"
                ) from error
        time.sleep(pause)
        pause = min(2 * pause, 0.2)


def _connected(address: Address, timeout: float, source: str | None) -> socket.socket:
    where = None if source is None else (source, 0)
    sock = socket.create_connection(address, timeout, source_address=where)
    try:
        # A port of the ephemeral range that nobody listens at may connect to itself.
        if sock.getsockname() == sock.getpeername():
            raise ConnectionRefusedError("nobody listens")
    except OSError:
        sock.close()
        raise
    return sock


def await_welcome(line: Line, hello: Hello, timeout: float) -> list[Hello]:
    """Says hello to rank 0 and waits until the group has formed; the hellos of all ranks.

    `TransportError` with rank 0's reason if it does not, `PeerLost` or `TransportTimeout` if it says nothing.
    """
    try:
        line.send(hello)
        deadline = time.monotonic() + timeout + GRACE  # rank 0 is the one to say who has not come
        said: list[Any] = []
        while not said:
            line.sock.settimeout(max(0.001, _left(deadline)))
            said = line.receive()
        line.sock.settimeout(timeout)
    except TimeoutError as error:
        raise TransportTimeout(f"rank 0 did not form the group in {timeout:g} s") from error
    except (OSError, EOFError, ValueError) as error:
        raise PeerLost(
            f"rank 0 is lost, or what listens at the rendezvous is not rank 0: {error!r}"
        ) from error
    if "refused" in said[0]:
        raise TransportError(said[0]["refused"])
    welcome: list[Hello] = said[0]["welcome"]
    return welcome
